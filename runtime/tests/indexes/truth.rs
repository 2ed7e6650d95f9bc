//! Values in double precision, and how far those of `f32` may be from them.

/// A unit of rounding of `f32`.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// Numbers below this one may vanish.
const LEAST: f64 = 1.2e-38;

/// The value of a query and a row, in which less is nearer, and its largest error in `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub exact: f64,
    pub error: f64,
}

impl Value {
    pub fn of(metric: &str, q: &[f32], x: &[f32]) -> Value {
        let d = q.len() as f64;
        let pairs = || q.iter().zip(x).map(|(&q, &x)| (f64::from(q), f64::from(x)));
        let (exact, error) = match metric {
            "l2" => {
                let square: f64 = pairs().map(|(q, x)| (q - x) * (q - x)).sum();
                (square, (d + 3.0) * UNIT * square + d * LEAST)
            }
            "ip" => {
                let size: f64 = pairs().map(|(q, x)| (q * x).abs()).sum();
                (-pairs().map(|(q, x)| q * x).sum::<f64>(), (d + 3.0) * UNIT * size + d * LEAST)
            }
            _ => cosine(q, x),
        };
        // Larger sums overflow.
        let error = if exact.abs() + error < 1e38 { error } else { f64::INFINITY };
        Value { exact, error }
    }

    pub fn all(metric: &str, q: &[f32], rows: &[f32]) -> Vec<Value> {
        rows.chunks_exact(q.len()).map(|x| Value::of(metric, q, x)).collect()
    }

    /// The same of a search by squared lengths, which says nothing of vectors whose squares `f32` does not hold.
    pub fn all_of_squares(metric: &str, q: &[f32], rows: &[f32]) -> Vec<Value> {
        let is_held = |x: &[f32]| {
            let square: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            square == 0.0 || (1e-30..1e37).contains(&square)
        };
        let held = |(value, x): (Value, &[f32])| match metric != "cosine" || (is_held(q) && is_held(x)) {
            true => value,
            false => Value { error: f64::INFINITY, ..value },
        };
        Value::all(metric, q, rows).into_iter().zip(rows.chunks_exact(q.len())).map(held).collect()
    }

    pub fn least(self) -> f64 {
        self.exact - self.error
    }

    pub fn most(self) -> f64 {
        self.exact + self.error
    }
}

/// 1 minus the cosine; 1 for zeros. Numbers of vectors at length 1 have errors of their own, and a common one of the length.
fn cosine(q: &[f32], x: &[f32]) -> (f64, f64) {
    let d = q.len() as f64;
    let length = |x: &[f32]| x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    let [of_q, of_x] = [length(q), length(x)];
    if of_q == 0.0 || of_x == 0.0 {
        return (1.0, 0.0);
    }
    let terms = q.iter().zip(x).map(|(&q, &x)| f64::from(q) / of_q - f64::from(x) / of_x);
    let square: f64 = terms.map(|term| term * term).sum();
    let moved = 2.0 * (d + 8.0) * UNIT;
    (0.5 * square, square.sqrt() * moved + moved * moved + (d + 3.0) * UNIT * square)
}

/// The fault of a result, if it lacks a row that is nearer by more than rounding, or an equal row of a lesser number. `ids`
/// are the numbers of rows, -1 behind the last one.
pub fn fault(values: &[Value], rows: &[f32], ids: &[f64]) -> Option<String> {
    let d = rows.len() / values.len();
    let found: Vec<usize> = ids.iter().filter(|&&id| id >= 0.0).map(|&id| id as usize).collect();
    let mut is_found = vec![false; values.len()];
    for &id in &found {
        if id >= values.len() || is_found[id] {
            return Some(format!("{id} is no row, or is there twice: {ids:?}"));
        }
        is_found[id] = true;
    }
    if found.len() != ids.len().min(values.len()) {
        return Some(format!("there are {} rows of {}: {ids:?}", found.len(), values.len()));
    }
    let last = found.iter().map(|&id| values[id].least()).fold(f64::NEG_INFINITY, f64::max);
    let row = |id: usize| &rows[id * d..][..d];
    let others = (0..values.len()).filter(|&id| !is_found[id]);
    for id in others {
        if values[id].most() < last {
            return Some(format!("row {id} of value {:?} is not among {ids:?}, up to {last:e}", values[id]));
        }
        if let Some(twin) = found.iter().find(|&&twin| twin > id && row(twin) == row(id)) {
            return Some(format!("row {id} is not among {ids:?}, and its equal {twin} is"));
        }
    }
    None
}
