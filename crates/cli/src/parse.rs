//! Parsers of options' values, which say what is possible.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser of numbers in a range.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| match text.parse::<f64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => {
            let (least, most) = (range.start(), range.end());
            Err(match *most < 1e7 {
                true => format!("it has to be a number from {least} to {most}"),
                false => format!("it has to be a number from {least} to {most:e}"),
            })
        }
    }
}

/// A parser of whole numbers in a range.
pub fn whole<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone,
{
    move |text| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "it has to be a whole number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// Parses where something listens.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it has to be an IP address and a port, such as 127.0.0.1:6379 or [::1]:6379".to_owned()
    })
}
