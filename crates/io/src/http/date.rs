//! Dates in the formats of servers.

use std::time::{SystemTime, UNIX_EPOCH};

/// Current time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

/// Formats seconds since 1970 as `20130524T000000Z`.
pub fn compact(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days to civil date, with years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (y, m, d) = (
        year + era * 400 + i64::from(month >= 10),
        if month < 10 { month + 3 } else { month - 9 },
        day - (153 * month + 2) / 5 + 1,
    );
    format!("{y:04}{m:02}{d:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses an HTTP date to seconds since 1970, in any of the three forms of RFC 9110: `Sun, 06 Nov 1994 08:49:37 GMT`,
/// `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. Returns `None` for other forms and for times before
/// 1970.
pub fn parse(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let month = words.iter().find_map(|word| MONTHS.iter().position(|name| name == word))? as i64 + 1;
    let mut numbers = words.iter().filter_map(|word| word.parse::<i64>().ok());
    let (day, year) = (numbers.next()?, numbers.next()?);
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        1970..10_000 => year,
        _ => return None,
    };
    let mut clock =
        words.iter().find(|word| word.contains(':'))?.split(':').map(|part| part.parse::<i64>().ok());
    let mut part = |limit| clock.next().flatten().filter(|part| (0..limit).contains(part));
    // Allows for a leap second.
    let (hour, minute, second) = (part(24)?, part(60)?, part(61)?);
    if !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, as above.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    u64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
        ] {
            assert_eq!(compact(seconds), text);
        }
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text), Some(784_111_777), "{text}");
        }
        assert_eq!(parse("Tue, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for bad in [
            "",
            "5",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
