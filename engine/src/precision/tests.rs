#![allow(clippy::unwrap_used)]

use super::*;
use crate::ir::{Level, parse, verify};
use crate::op::Registry;
use expect_test::{Expect, expect};

fn check(text: &str, full: &[&str], expected: Expect, reasons: Expect) {
    let graph = parse(text, &Registry::new()).unwrap();
    let full = full.iter().map(|&name| name.into()).collect();
    let mixed = mixed(&graph, DType::BF16, &full);
    assert_eq!(verify(&mixed, Level::Bound), Ok(()));
    expected.assert_eq(&mixed.to_string());
    reasons.assert_eq(&casts(&mixed));
}

const LAYER: &str = "
    graph g {
      input x: f32[2, 3]
      param w: f32[3, 4]
      param b: f32[4]
      state seen: f32[]
      z: f32[2, 4] = .matmul(x, w, contracted=[[1, 0]])
      h: f32[2, 4] = map(z, b) |a, b| max(a + b, 0.0)
      again: f32[2, 4] = .matmul(x, w, contracted=[[1, 0]])
      both: f32[2, 4] = map(h, again) |a, b| a * b
      total: f32[] = .sum(both, axes=[0, 1])
      seen_next: f32[] = map(seen, total) |a, b| a + b
      state seen = seen_next
      output total = total
      output h = h
    }";

#[test]
fn matmuls_take_halves_and_sums_do_not() {
    check(
        LAYER,
        &[],
        expect![[r#"
        graph g {
          input x: f32[2, 3]
          param w: f32[3, 4]
          param b: f32[4]
          state seen: f32[]
          x.bf16: bf16[2, 3] = .cast(x, dtype=bf16)
          w.bf16: bf16[3, 4] = .cast(w, dtype=bf16)
          z: bf16[2, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          b.bf16: bf16[4] = .cast(b, dtype=bf16)
          h: bf16[2, 4] = map(z, b.bf16) |a, b| max(a + b, 0.0)
          again: bf16[2, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          both: bf16[2, 4] = map(h, again) |a, b| a * b
          both.f32: f32[2, 4] = .cast(both, dtype=f32)
          total: f32[] = .sum(both.f32, axes=[0, 1])
          seen_next: f32[] = map(seen, total) |a, b| a + b
          h.f32: f32[2, 4] = .cast(h, dtype=f32)
          state seen = seen_next
          output total = total
          output h = h.f32
        }
    "#]],
        expect![[r#"
        x: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        x: f32 -> bf16 for again: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for again: operands of a matmul are rounded, its sums are f32
        b: f32 -> bf16 for h: a parameter or constant beside an operand of the half type
        both: bf16 -> f32 for total: reductions, norms, losses and undeclared ops are f32
        h: bf16 -> f32 for h: outputs keep their type
    "#]],
    );
}

#[test]
fn nodes_may_be_left_out() {
    check(
        LAYER,
        &["z"],
        expect![[r#"
        graph g {
          input x: f32[2, 3]
          param w: f32[3, 4]
          param b: f32[4]
          state seen: f32[]
          z: f32[2, 4] = .matmul(x, w, contracted=[[1, 0]])
          h: f32[2, 4] = map(z, b) |a, b| max(a + b, 0.0)
          x.bf16: bf16[2, 3] = .cast(x, dtype=bf16)
          w.bf16: bf16[3, 4] = .cast(w, dtype=bf16)
          again: bf16[2, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          again.f32: f32[2, 4] = .cast(again, dtype=f32)
          both: f32[2, 4] = map(h, again.f32) |a, b| a * b
          total: f32[] = .sum(both, axes=[0, 1])
          seen_next: f32[] = map(seen, total) |a, b| a + b
          state seen = seen_next
          output total = total
          output h = h
        }
    "#]],
        expect![[r#"
        x: f32 -> bf16 for again: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for again: operands of a matmul are rounded, its sums are f32
        again: bf16 -> f32 for both: it has another operand of f32
    "#]],
    );
}

#[test]
fn constants_and_other_types_keep_theirs() {
    let text = "
        graph g {
          input x: f64[2, 3]
          input y: f32[2, 3]
          param w: f64[3, 4]
          param u: f32[3, 4]
          k: f32[] = .const(0.1)
          z: f64[2, 4] = .matmul(x, w, contracted=[[1, 0]])
          v: f32[2, 4] = .matmul(y, u, contracted=[[1, 0]])
          scaled: f32[2, 4] = map(v, k) |a, b| a * b
          large: bool[2, 4] = map(scaled, k) |a, b| a > b
          output z = z
          output large = large
        }";
    check(
        text,
        &[],
        expect![[r#"
        graph g {
          input x: f64[2, 3]
          input y: f32[2, 3]
          param w: f64[3, 4]
          param u: f32[3, 4]
          k: f32[] = .const(0.1)
          z: f64[2, 4] = .matmul(x, w, contracted=[[1, 0]])
          y.bf16: bf16[2, 3] = .cast(y, dtype=bf16)
          u.bf16: bf16[3, 4] = .cast(u, dtype=bf16)
          v: bf16[2, 4] = .matmul(y.bf16, u.bf16, contracted=[[1, 0]])
          k.bf16: bf16[] = .const(0.1)
          scaled: bf16[2, 4] = map(v, k.bf16) |a, b| a * b
          large: bool[2, 4] = map(scaled, k.bf16) |a, b| a > b
          output z = z
          output large = large
        }
    "#]],
        expect![[r#"
        y: f32 -> bf16 for v: operands of a matmul are rounded, its sums are f32
        u: f32 -> bf16 for v: operands of a matmul are rounded, its sums are f32
    "#]],
    );
}

#[test]
fn what_follows_f32_stays_f32() {
    let text = "
        graph g {
          input x: f32[2, 3]
          input skip: f32[2, 4]
          param w: f32[3, 4]
          z: f32[2, 4] = .matmul(x, w, contracted=[[1, 0]])
          sum: f32[2, 4] = map(skip, z) |a, b| a + b
          turned: f32[4, 2] = .permute(z, perm=[1, 0])
          scaled: f32[3, 4] = map(w) |a| a * 2.0
          output sum = sum
          output turned = turned
          output scaled = scaled
        }";
    check(
        text,
        &[],
        expect![[r#"
        graph g {
          input x: f32[2, 3]
          input skip: f32[2, 4]
          param w: f32[3, 4]
          x.bf16: bf16[2, 3] = .cast(x, dtype=bf16)
          w.bf16: bf16[3, 4] = .cast(w, dtype=bf16)
          z: bf16[2, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          z.f32: f32[2, 4] = .cast(z, dtype=f32)
          sum: f32[2, 4] = map(skip, z.f32) |a, b| a + b
          turned: bf16[4, 2] = .permute(z, perm=[1, 0])
          scaled: f32[3, 4] = map(w) |a| a * 2.0
          turned.f32: f32[4, 2] = .cast(turned, dtype=f32)
          output sum = sum
          output turned = turned.f32
          output scaled = scaled
        }
    "#]],
        expect![[r#"
        x: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        z: bf16 -> f32 for sum: it has another operand of f32
        turned: bf16 -> f32 for turned: outputs keep their type
    "#]],
    );
}

/// A loop that is given a product, and parameters.
const LOOP: &str = "
    graph g {
      input x: f32[9, 3]
      param w: f32[3, 4]
      param u: f32[4, 4]
      param b: f32[4]
      h: f32[4] = .const(0.0)
      z: f32[9, 4] = .matmul(x, w, contracted=[[1, 0]])
      (last: f32[4]) = .loop(h, z, u, b, given=3, trips=9) {
        graph trip {
          input c: f32[4]
          input i: i32[]
          input z: f32[9, 4]
          input u: f32[4, 4]
          input b: f32[4]
          row: f32[4] = .gather(z, i, axis=0)
          p: f32[4] = .matmul(c, u, contracted=[[0, 0]])
          s: f32[4] = map(row, p, b) |a, b, c| tanh(a + b + c)
          total: f32[] = .sum(s, axes=[0])
          next: f32[4] = map(s, total) |a, b| a / b
          output next = next
        }
      }
      output last = last
    }";

/// Carried values keep their types. A sequence that is of the half type outside is so inside, and parameters are rounded.
#[test]
fn loops_are_entered() {
    check(
        LOOP,
        &[],
        expect![[r#"
        graph g {
          input x: f32[9, 3]
          param w: f32[3, 4]
          param u: f32[4, 4]
          param b: f32[4]
          h: f32[4] = .const(0.0)
          x.bf16: bf16[9, 3] = .cast(x, dtype=bf16)
          w.bf16: bf16[3, 4] = .cast(w, dtype=bf16)
          z: bf16[9, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          last: f32[4] = .loop(h, z, u, b, given=3, trips=9) {
            graph trip {
              input c: f32[4]
              input i: i32[]
              input z: bf16[9, 4]
              input u: f32[4, 4]
              input b: f32[4]
              row: bf16[4] = .gather(z, i, axis=0)
              c.bf16: bf16[4] = .cast(c, dtype=bf16)
              u.bf16: bf16[4, 4] = .cast(u, dtype=bf16)
              p: bf16[4] = .matmul(c.bf16, u.bf16, contracted=[[0, 0]])
              b.bf16: bf16[4] = .cast(b, dtype=bf16)
              s: bf16[4] = map(row, p, b.bf16) |a, b, c| tanh(a + b + c)
              s.f32: f32[4] = .cast(s, dtype=f32)
              total: f32[] = .sum(s.f32, axes=[0])
              next: f32[4] = map(s.f32, total) |a, b| a / b
              output next = next
            }
          }
          output last = last
        }
    "#]],
        expect![[r#"
        x: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        c: f32 -> bf16 for p: operands of a matmul are rounded, its sums are f32
        u: f32 -> bf16 for p: operands of a matmul are rounded, its sums are f32
        b: f32 -> bf16 for s: a parameter or constant beside an operand of the half type
        s: bf16 -> f32 for total: reductions, norms, losses and undeclared ops are f32
        s: bf16 -> f32 for next: it has another operand of f32
    "#]],
    );
}

#[test]
fn nodes_in_loops_may_be_left_out() {
    check(
        LOOP,
        &["p"],
        expect![[r#"
        graph g {
          input x: f32[9, 3]
          param w: f32[3, 4]
          param u: f32[4, 4]
          param b: f32[4]
          h: f32[4] = .const(0.0)
          x.bf16: bf16[9, 3] = .cast(x, dtype=bf16)
          w.bf16: bf16[3, 4] = .cast(w, dtype=bf16)
          z: bf16[9, 4] = .matmul(x.bf16, w.bf16, contracted=[[1, 0]])
          last: f32[4] = .loop(h, z, u, b, given=3, trips=9) {
            graph trip {
              input c: f32[4]
              input i: i32[]
              input z: bf16[9, 4]
              input u: f32[4, 4]
              input b: f32[4]
              row: bf16[4] = .gather(z, i, axis=0)
              p: f32[4] = .matmul(c, u, contracted=[[0, 0]])
              row.f32: f32[4] = .cast(row, dtype=f32)
              s: f32[4] = map(row.f32, p, b) |a, b, c| tanh(a + b + c)
              total: f32[] = .sum(s, axes=[0])
              next: f32[4] = map(s, total) |a, b| a / b
              output next = next
            }
          }
          output last = last
        }
    "#]],
        expect![[r#"
        x: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        w: f32 -> bf16 for z: operands of a matmul are rounded, its sums are f32
        row: bf16 -> f32 for s: it has another operand of f32
    "#]],
    );
}
