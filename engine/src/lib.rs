//! Text in, fused kernels out: the graph, its gradient, its rules, its fusion and its plan
