//! Indexes of rows whose squares leave the range of `f32`.

use super::*;

#[test]
fn cosines_do_not_depend_on_lengths() {
    let mixed = "b * where(remainder(i, 4) == 0, 1e-25, where(remainder(i, 4) == 1, 1e25, \
                 where(remainder(i, 4) == 2, 1e-35, 1e36)))";
    for formulas in [["1e-25 * a", "1e-25 * b"], ["1e25 * a", "1e25 * b"], ["1e25 * a", mixed]] {
        let case = Case { sizes: [20, 400, 4], formulas, radius: 0.05, ..GROUPED };
        for device in devices() {
            case.check_on("cosine", "both", device);
        }
        Case { n_groups: 7, ..case }.check_on("cosine", "both", (present::cpu(2), true));
    }
}

/// Most blocks are passed over, since directions of the largest variance are found at every scale.
#[test]
fn rows_are_halved_at_every_scale() {
    for scale in ["1e-10", "1.0", "1e10", "1e16"] {
        for metric in ["l2", "ip"] {
            let formulas = [format!("{scale} * a"), format!("{scale} * b")].map(|formula| &*formula.leak());
            let case = Case { sizes: [20, 3000, 4], formulas, radius: 0.0, k: 5, block: 16, n_groups: 0 };
            let found = outputs(&case.text(metric, "both"), (present::cpu(2), true), &["near.scanned"]);
            let shares = &found["near.scanned"];
            let share = shares.iter().sum::<f64>() / shares.len() as f64;
            assert!(share < 0.4, "{metric}, {scale}: {share} of the rows are compared");
        }
    }
}
