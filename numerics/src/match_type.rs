//! Matches that bind a type.

/// Matches a value, and binds `$T` to the type of the arm that fits.
#[macro_export]
macro_rules! match_type {
    ($value:expr, $T:ident => $body:expr, $($pattern:pat => $type:ty),* $(; $rest:pat => $other:expr)?) => {
        match $value {
            $($pattern => {
                type $T = $type;
                $body
            })*
            $($rest => $other,)?
        }
    };
}
