//! Amounts such as `500m` and `1Gi`, as the server reads and writes them.

/// How an amount was written, which is how it is written again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// An amount in units of 10⁻⁹, the smallest the server knows.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    nano: i128,
    form: Form,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Reads an amount; `None` if it is none, or larger than anything that is counted.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() || part.contains('.') {
            return None;
        }
        let digits: i128 = format!("0{whole}{part}").parse().ok()?;
        let places = i32::try_from(part.len()).ok()?;
        if let Some(position) = BINARY.iter().skip(1).position(|known| *known == suffix) {
            let factor = 1024i128.checked_pow(u32::try_from(position + 1).ok()?)?;
            let nano = scaled(digits.checked_mul(factor)?, 9 - places)?;
            return Some(Self {
                nano: sign * nano,
                form: Form::Binary,
            });
        }
        let (exponent, form) = match DECIMAL.iter().position(|known| *known == suffix) {
            Some(position) => (i32::try_from(position).ok()? * 3 - 9, Form::Decimal),
            None => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, Form::Exponent),
        };
        let nano = scaled(digits, exponent + 9 - places)?;
        Some(Self {
            nano: sign * nano,
            form,
        })
    }

    /// Whether it is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is nought.
    pub(crate) fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// In units of 10⁻⁹, to compare.
    pub(crate) fn nano(self) -> i128 {
        self.nano
    }

    /// Rounded up to thousandths, as amounts of resources are kept.
    pub(crate) fn in_thousandths(self) -> Self {
        const MICRO: i128 = 1_000_000;
        let rest = self.nano.rem_euclid(MICRO);
        let up = if rest == 0 { 0 } else { MICRO - rest };
        Self {
            nano: self.nano + up,
            form: self.form,
        }
    }

    /// As the server writes it.
    pub(crate) fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        let whole = self.nano / NANO;
        if self.form == Form::Binary && self.is_whole() && whole.abs() >= 1024 {
            let (mut number, mut steps) = (whole, 0usize);
            while number % 1024 == 0 && steps + 1 < BINARY.len() {
                number /= 1024;
                steps += 1;
            }
            return format!("{number}{}", BINARY.get(steps).unwrap_or(&""));
        }
        let (mut number, mut steps) = (self.nano, 0usize);
        while number % 1000 == 0 && steps + 1 < DECIMAL.len() {
            number /= 1000;
            steps += 1;
        }
        match (self.form, steps) {
            (Form::Exponent, 3) => number.to_string(),
            (Form::Exponent, _) => {
                let exponent = i64::try_from(steps).unwrap_or_default() * 3 - 9;
                format!("{number}e{exponent}")
            }
            _ => format!("{number}{}", DECIMAL.get(steps).unwrap_or(&"")),
        }
    }
}

/// A number times a power of ten, rounded away from nought where it does not fit.
fn scaled(number: i128, exponent: i32) -> Option<i128> {
    let power = 10i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        return number.checked_mul(power);
    }
    let rest = number % power;
    Some(number / power + i128::from(rest != 0))
}

/// An amount as the server writes it; a text that is none stays as it is.
pub fn canonical(text: &str) -> String {
    Quantity::parse(text).map_or_else(|| text.to_owned(), Quantity::canonical)
}
