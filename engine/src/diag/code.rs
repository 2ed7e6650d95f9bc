//! The codes of errors.

use std::fmt;

macro_rules! codes {
    ($($code:ident $title:literal)*) => {
        /// A stable number for a kind of error. The page `docs/errors/E….md` explains each with an example.
        ///
        /// `E00xx` syntax, `E01xx` names, types and shapes, `E02xx` structure of the pipeline, `E03xx` structure of
        /// the graph, `E04xx` functions and plugins, `E05xx` data and checkpoints, `E06xx` while running.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $code,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            /// One line that describes the error.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$code => $title,)* }
            }

            /// `E0102`
            pub const fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code),)* }
            }
        }
    };
}

codes! {
    E0001 "the file is not text"
    E0002 "something else was expected here"
    E0003 "a bracket, string or comment is not closed"
    E0004 "malformed string or character"
    E0005 "malformed number"
    E0006 "nested too deeply"
    E0007 "unknown extension of the file format"
    E0008 "malformed expression"
    E0009 "malformed type"
    E0010 "a value of the wrong kind"
    E0011 "a field is missing"
    E0012 "unknown field"
    E0013 "a field or key is given twice"
    E0014 "unknown choice"
    E0015 "a number out of range"
    E0016 "this cannot be a name"

    E0101 "unknown name"
    E0102 "shapes do not broadcast"
    E0103 "element types do not agree"
    E0104 "an operand of the wrong type or shape"
    E0105 "unknown op"
    E0106 "wrong number of operands"
    E0107 "unknown attribute"
    E0108 "an attribute of the wrong kind"
    E0109 "an attribute is missing"
    E0110 "the declared type is not the type of the value"
    E0111 "unknown element type"
    E0112 "an extent cannot be determined"
    E0113 "the op has no such result"
    E0114 "a number does not fit its element type"
    E0115 "no gradient passes through"
    E0116 "a tensor is too large"
    E0117 "an extent cannot be computed"

    E0201 "unknown kind of stage"
    E0202 "unknown data source"
    E0203 "unknown field or split of a data source"
    E0204 "malformed parameter"
    E0205 "a stage needs a scalar"
    E0206 "malformed update of state"
    E0207 "unknown optimizer"
    E0208 "no such setting"
    E0209 "the better direction of a metric is not known"
    E0210 "two results go to one file"
    E0211 "a stage and the graph do not fit"
    E0212 "a stage cannot be a part of another"

    E0301 "nodes depend on each other in a circle"
    E0302 "a name is defined twice"
    E0303 "a node is never used"

    E0401 "malformed function"
    E0402 "a function calls itself"
    E0403 "a plugin file may define functions only"
    E0404 "malformed layer"

    E0501 "data cannot be found"
    E0502 "a data file is broken"
    E0503 "a checkpoint cannot be read"
    E0504 "a checkpoint does not match the graph"
    E0505 "a file cannot be written"
    E0506 "rows do not fit the graph"
    E0507 "an ONNX model is broken"
    E0508 "a part of an ONNX model has no translation"

    E0601 "an index is out of range"
    E0603 "the device is not available"
    E0604 "out of memory"
    E0605 "an integer is divided by zero"
    E0606 "the loss is not finite"
    E0607 "a node makes a NaN or an infinity"
    E0608 "a kernel does not compile"
    E0609 "the device was lost"
    E0610 "the device cannot run a kernel"
    E0611 "a metric is not finite"
    E0612 "there is no room for the results"
    E0613 "a distance is negative"
    E0614 "a requirement does not hold"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
