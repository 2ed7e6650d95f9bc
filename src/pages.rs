//! The pages of the error codes.

/// Codes and pages, in the order of the codes.
pub(crate) const ERRORS: [(&str, &str); 73] = [
    ("E0001", include_str!("../docs/errors/E0001.md")),
    ("E0002", include_str!("../docs/errors/E0002.md")),
    ("E0003", include_str!("../docs/errors/E0003.md")),
    ("E0004", include_str!("../docs/errors/E0004.md")),
    ("E0005", include_str!("../docs/errors/E0005.md")),
    ("E0006", include_str!("../docs/errors/E0006.md")),
    ("E0007", include_str!("../docs/errors/E0007.md")),
    ("E0008", include_str!("../docs/errors/E0008.md")),
    ("E0009", include_str!("../docs/errors/E0009.md")),
    ("E0010", include_str!("../docs/errors/E0010.md")),
    ("E0011", include_str!("../docs/errors/E0011.md")),
    ("E0012", include_str!("../docs/errors/E0012.md")),
    ("E0013", include_str!("../docs/errors/E0013.md")),
    ("E0014", include_str!("../docs/errors/E0014.md")),
    ("E0015", include_str!("../docs/errors/E0015.md")),
    ("E0016", include_str!("../docs/errors/E0016.md")),
    ("E0101", include_str!("../docs/errors/E0101.md")),
    ("E0102", include_str!("../docs/errors/E0102.md")),
    ("E0103", include_str!("../docs/errors/E0103.md")),
    ("E0104", include_str!("../docs/errors/E0104.md")),
    ("E0105", include_str!("../docs/errors/E0105.md")),
    ("E0106", include_str!("../docs/errors/E0106.md")),
    ("E0107", include_str!("../docs/errors/E0107.md")),
    ("E0108", include_str!("../docs/errors/E0108.md")),
    ("E0109", include_str!("../docs/errors/E0109.md")),
    ("E0110", include_str!("../docs/errors/E0110.md")),
    ("E0111", include_str!("../docs/errors/E0111.md")),
    ("E0112", include_str!("../docs/errors/E0112.md")),
    ("E0113", include_str!("../docs/errors/E0113.md")),
    ("E0114", include_str!("../docs/errors/E0114.md")),
    ("E0115", include_str!("../docs/errors/E0115.md")),
    ("E0116", include_str!("../docs/errors/E0116.md")),
    ("E0117", include_str!("../docs/errors/E0117.md")),
    ("E0201", include_str!("../docs/errors/E0201.md")),
    ("E0202", include_str!("../docs/errors/E0202.md")),
    ("E0203", include_str!("../docs/errors/E0203.md")),
    ("E0204", include_str!("../docs/errors/E0204.md")),
    ("E0205", include_str!("../docs/errors/E0205.md")),
    ("E0206", include_str!("../docs/errors/E0206.md")),
    ("E0207", include_str!("../docs/errors/E0207.md")),
    ("E0208", include_str!("../docs/errors/E0208.md")),
    ("E0209", include_str!("../docs/errors/E0209.md")),
    ("E0210", include_str!("../docs/errors/E0210.md")),
    ("E0211", include_str!("../docs/errors/E0211.md")),
    ("E0212", include_str!("../docs/errors/E0212.md")),
    ("E0301", include_str!("../docs/errors/E0301.md")),
    ("E0302", include_str!("../docs/errors/E0302.md")),
    ("E0303", include_str!("../docs/errors/E0303.md")),
    ("E0401", include_str!("../docs/errors/E0401.md")),
    ("E0402", include_str!("../docs/errors/E0402.md")),
    ("E0403", include_str!("../docs/errors/E0403.md")),
    ("E0404", include_str!("../docs/errors/E0404.md")),
    ("E0501", include_str!("../docs/errors/E0501.md")),
    ("E0502", include_str!("../docs/errors/E0502.md")),
    ("E0503", include_str!("../docs/errors/E0503.md")),
    ("E0504", include_str!("../docs/errors/E0504.md")),
    ("E0505", include_str!("../docs/errors/E0505.md")),
    ("E0506", include_str!("../docs/errors/E0506.md")),
    ("E0507", include_str!("../docs/errors/E0507.md")),
    ("E0508", include_str!("../docs/errors/E0508.md")),
    ("E0601", include_str!("../docs/errors/E0601.md")),
    ("E0603", include_str!("../docs/errors/E0603.md")),
    ("E0604", include_str!("../docs/errors/E0604.md")),
    ("E0605", include_str!("../docs/errors/E0605.md")),
    ("E0606", include_str!("../docs/errors/E0606.md")),
    ("E0607", include_str!("../docs/errors/E0607.md")),
    ("E0608", include_str!("../docs/errors/E0608.md")),
    ("E0609", include_str!("../docs/errors/E0609.md")),
    ("E0610", include_str!("../docs/errors/E0610.md")),
    ("E0611", include_str!("../docs/errors/E0611.md")),
    ("E0612", include_str!("../docs/errors/E0612.md")),
    ("E0613", include_str!("../docs/errors/E0613.md")),
    ("E0614", include_str!("../docs/errors/E0614.md")),
];

#[cfg(test)]
mod tests {
    use super::ERRORS;
    use engine_core::diag::Code;

    #[test]
    fn every_code_has_its_page() {
        let codes: Vec<&str> = ERRORS.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, Code::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
        assert!(ERRORS.iter().all(|(code, page)| page.starts_with(&format!("# {code}: "))));
    }
}
