"""Building blocks of everything that is shown: units, charts, SVG. Knows no table, train or study."""
