//! Elementwise loops.
//!
//! The loops are macros, not closures: a call that is left inside a loop would keep it from being vectorised. Their users
//! import `Operand`, `CHUNK` and `Aligned`.

macro_rules! map {
    ($x:expr, $out:expr, $v:ident => $value:expr) => {
        for (out, &$v) in $out.iter_mut().zip($x) {
            *out = $value;
        }
    };
}

/// Chunks of a constant length need no bookkeeping at their ends.
macro_rules! map_with_prefetch {
    ($x:expr, $out:expr, $ahead:expr, $v:ident => $value:expr) => {{
        let (chunks, rest) = $x.as_chunks::<CHUNK>();
        let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
        let mut requests = $ahead.over(chunks.len());
        for (out, x) in out_chunks.iter_mut().zip(chunks) {
            requests.step();
            map!(x, out, $v => $value);
        }
        map!(rest, out_rest, $v => $value);
    }};
}

/// A function of whole chunks, applied to `argument`.
macro_rules! map_chunks {
    ($x:expr, $out:expr, $ahead:expr, $v:ident => $function:expr, $argument:expr) => {{
        let (chunks, rest) = $x.as_chunks::<CHUNK>();
        let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
        let mut requests = $ahead.over(chunks.len());
        let Aligned(values) = &mut Aligned([0f32; CHUNK]);
        for (out, x) in out_chunks.iter_mut().zip(chunks) {
            requests.step();
            map!(x, values, $v => $argument);
            $function(values);
            *out = *values;
        }
        if !rest.is_empty() {
            map!(rest, values, $v => $argument);
            $function(values);
            out_rest.copy_from_slice(&values[..rest.len()]);
        }
    }};
}

macro_rules! zip {
    ($a:expr, $b:expr, $out:expr, ($u:ident, $v:ident) => $value:expr) => {
        match ($a, $b) {
            (Operand::Slice(a), Operand::Slice(b)) => {
                for ((out, &$u), &$v) in $out.iter_mut().zip(a).zip(b) {
                    *out = $value;
                }
            }
            (Operand::Slice(a), Operand::Scalar($v)) => map!(a, $out, $u => $value),
            (Operand::Scalar($u), Operand::Slice(b)) => map!(b, $out, $v => $value),
            (Operand::Scalar($u), Operand::Scalar($v)) => $out.fill($value),
        }
    };
}

/// As `zip`, with a slice before the two operands.
macro_rules! zip_with_slice {
    ($x:expr, $a:expr, $b:expr, $out:expr, ($w:ident, $u:ident, $v:ident) => $value:expr) => {
        match ($a, $b) {
            (Operand::Slice(a), Operand::Slice(b)) => {
                for ((out, &$w), (&$u, &$v)) in $out.iter_mut().zip($x).zip(a.iter().zip(b)) {
                    *out = $value;
                }
            }
            (Operand::Slice(a), Operand::Scalar($v)) => {
                for ((out, &$w), &$u) in $out.iter_mut().zip($x).zip(a) {
                    *out = $value;
                }
            }
            (Operand::Scalar($u), Operand::Slice(b)) => {
                for ((out, &$w), &$v) in $out.iter_mut().zip($x).zip(b) {
                    *out = $value;
                }
            }
            (Operand::Scalar($u), Operand::Scalar($v)) => map!($x, $out, $w => $value),
        }
    };
}

macro_rules! zip_with_prefetch {
    ($a:expr, $b:expr, $out:expr, $ahead:expr, ($u:ident, $v:ident) => $value:expr) => {
        match ($a, $b) {
            (Operand::Slice(a), Operand::Slice(b)) => {
                let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<CHUNK>(), b.as_chunks::<CHUNK>());
                let (out_chunks, out_rest) = $out.as_chunks_mut::<CHUNK>();
                let mut requests = $ahead.over(a_chunks.len());
                for ((out, a), b) in out_chunks.iter_mut().zip(a_chunks).zip(b_chunks) {
                    requests.step();
                    for ((out, &$u), &$v) in out.iter_mut().zip(a).zip(b) {
                        *out = $value;
                    }
                }
                for ((out, &$u), &$v) in out_rest.iter_mut().zip(a_rest).zip(b_rest) {
                    *out = $value;
                }
            }
            (Operand::Slice(a), Operand::Scalar($v)) => map_with_prefetch!(a, $out, $ahead, $u => $value),
            (Operand::Scalar($u), Operand::Slice(b)) => map_with_prefetch!(b, $out, $ahead, $v => $value),
            (Operand::Scalar($u), Operand::Scalar($v)) => $out.fill($value),
        }
    };
}

pub(super) use {map, map_chunks, map_with_prefetch, zip, zip_with_prefetch, zip_with_slice};
