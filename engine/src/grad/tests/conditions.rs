//! Gradients of conditions.

use super::*;

/// `c ? log(x)·k : k²·x`: two results, and a nested condition.
const CONDITION: &str = "
    graph g {
      input c: bool[]
      param x: f32[2]
      param k: f32[2]
      (y: f32[2], z: f32[2]) = .cond(c, x, k) {
        graph yes {
          input a: f32[2]
          input b: f32[2]
          l: f32[2] = .log(a)
          p: f32[2] = .mul(l, b)
          output p = p
          output l = l
        }
        graph no {
          input a: f32[2]
          input b: f32[2]
          t: bool[] = .const(true)
          q: f32[2] = .cond(t, b) {
            graph square {
              input d: f32[2]
              e: f32[2] = .mul(d, d)
              output e = e
            }
            graph nothing {
              input d: f32[2]
              e: f32[2] = .sqrt(d)
              output e = e
            }
          }
          r: f32[2] = .mul(q, a)
          output r = r
          output a = a
        }
      }
      w: f32[2] = .mul(y, z)
      loss: f32[] = .sum(w, axes=[0])
      output loss = loss
    }";

fn condition(c: f64, x: &[f64], k: &[f64]) -> HashMap<String, OracleTensor> {
    let tensor = |elements: &[f64]| OracleTensor::new(DType::F32, &[2], elements);
    let c = OracleTensor::new(DType::Bool, &[], &[c]);
    HashMap::from([("c".into(), c), ("x".into(), tensor(x)), ("k".into(), tensor(k))])
}

#[test]
fn the_gradient_of_a_condition_is_that_of_the_side_taken() {
    let registry = Registry::new();
    let graph = parse(CONDITION, &registry).unwrap();
    let grads = gradient_graph(&registry, &graph);
    // y·z is k·ln²x on one side and k²·x² on the other.
    let (x, k) = ([2.0f64, 0.5], [3.0, -1.5]);
    let taken = run(&registry, &grads, &condition(1.0, &x, &k));
    assert_close(&taken[0], &[0, 1].map(|i| 2.0 * k[i] * x[i].ln() / x[i]), "x");
    assert_close(&taken[1], &[0, 1].map(|i| x[i].ln().powi(2)), "k");
    let other = run(&registry, &grads, &condition(0.0, &x, &k));
    assert_close(&other[0], &[0, 1].map(|i| 2.0 * k[i] * k[i] * x[i]), "x");
    assert_close(&other[1], &[0, 1].map(|i| 2.0 * k[i] * x[i] * x[i]), "k");
}

#[test]
fn values_of_the_side_not_taken_do_not_leak() {
    let registry = Registry::new();
    let grads = gradient_graph(&registry, &parse(CONDITION, &registry).unwrap());
    // The logarithms of 0 and -1 and their slopes are infinite or NaN. So is the root of -1.5 in the nested condition.
    let (x, k) = ([0.0, -1.0], [3.0, -1.5]);
    let found = run(&registry, &grads, &condition(0.0, &x, &k));
    assert_close(&found[0], &[0, 1].map(|i| 2.0 * k[i] * k[i] * x[i]), "x");
    assert_close(&found[1], &[0, 1].map(|i| 2.0 * k[i] * x[i] * x[i]), "k");
}

#[test]
fn conditions_can_be_differentiated_twice() {
    let registry = Registry::new();
    let mut graph = gradient_graph(&registry, &parse(CONDITION, &registry).unwrap());
    let mut b = Builder::new(graph.clone(), &registry);
    let loss = b.sum(graph.outputs[0].1, &[0]);
    graph = Graph { outputs: vec![("loss".into(), loss)], ..b.graph };
    let (x, k) = ([2.0f64, 0.5], [3.0, -1.5]);
    let found = run(&registry, &gradient_graph(&registry, &graph), &condition(1.0, &x, &k));
    assert_close(&found[0], &[0, 1].map(|i| 2.0 * k[i] * (1.0 - x[i].ln()) / (x[i] * x[i])), "x");
    assert_close(&found[1], &[0, 1].map(|i| 2.0 * x[i].ln() / x[i]), "k");
}
