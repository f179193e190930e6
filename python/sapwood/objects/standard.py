"""The classes that have methods of their own: importing this makes them known."""

from sapwood.objects import (
    axis as axis,
    basic as basic,
    efficiency as efficiency,
    function as function,
    graph as graph,
    histogram as histogram,
    matrix as matrix,
    roofit as roofit,
    sparse as sparse,
    table as table,
)
