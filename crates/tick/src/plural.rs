//! Counts in words.

use std::fmt::Display;

/// `1 stamp`, `2 stamps`: a whole number of things whose name takes an `s`.
pub fn counted(number: impl Display, one: &str) -> String {
    let number = number.to_string();
    let many = if number == "1" { "" } else { "s" };
    format!("{number} {one}{many}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_thing_is_singular_and_any_other_number_is_not() {
        assert_eq!(
            [0_u64, 1, 2, 11].map(|number| counted(number, "pair")),
            ["0 pairs", "1 pair", "2 pairs", "11 pairs"]
        );
    }
}
