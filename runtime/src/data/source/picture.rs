//! Pictures of PNG and JPEG files: decoding, scaling and conversion to bytes.

use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// A decoded picture.
pub(super) struct Picture {
    /// Height and width.
    pub(super) size: [usize; 2],
    /// 1 to 4: grey or red, green and blue, each with or without opacity.
    n_channels: usize,
    /// By row, column and channel.
    samples: Vec<u16>,
    /// The largest sample that the file can have.
    largest: u16,
}

/// The most bytes of a picture.
const MOST_BYTES: usize = 512 << 20;

/// The weights of red, green and blue in the luminance of sRGB, whose white point is D65.
const LUMINANCE: [f32; 3] = [0.212_647_81, 0.715_179_15, 0.072_173_04];

impl Picture {
    /// The picture of a file, in the format that its first bytes say.
    ///
    /// # Errors
    /// If the bytes are no picture. The text is for the user.
    pub(super) fn decoded(bytes: &[u8]) -> Result<Picture, String> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => of_png(bytes),
            [0xFF, 0xD8, 0xFF, ..] => of_jpeg(bytes),
            _ => Err("the file is neither PNG nor JPEG".to_string()),
        }
    }

    /// The picture of another size, whose pixels are means weighted by a triangle, each rounded once.
    pub(super) fn scaled(&self, size: [usize; 2]) -> Picture {
        let ([height, width], n_channels) = (self.size, self.n_channels);
        let samples: Vec<f32> = self.samples.iter().map(|&sample| f32::from(sample)).collect();
        let rows = scaled_axis(&samples, [1, height, width * n_channels], size[0]);
        let all = scaled_axis(&rows, [size[0], width, n_channels], size[1]);
        let largest = f32::from(self.largest);
        let samples = all.iter().map(|sample| sample.clamp(0.0, largest).round() as u16).collect();
        Picture { size, samples, ..*self }
    }

    /// Its pixels as bytes of red, green and blue, or of grey.
    pub(super) fn bytes(&self, is_grey: bool) -> Vec<u8> {
        let pixels = self.samples.chunks_exact(self.n_channels);
        match is_grey {
            true => pixels.map(|pixel| self.grey(pixel)).collect(),
            false => pixels.flat_map(|pixel| self.colours(pixel).map(|sample| self.byte(sample))).collect(),
        }
    }

    /// Red, green and blue of a pixel.
    fn colours(&self, pixel: &[u16]) -> [u16; 3] {
        match *pixel {
            [red, green, blue, ..] => [red, green, blue],
            _ => [pixel[0]; 3],
        }
    }

    fn grey(&self, pixel: &[u16]) -> u8 {
        let [red, green, blue, ..] = *pixel else { return self.byte(pixel[0]) };
        let scale = 1.0 / f32::from(self.largest);
        let parts = [red, green, blue].map(|sample| f32::from(sample) * scale);
        let luminance = parts.iter().zip(LUMINANCE).fold(0.0, |sum, (part, weight)| sum + part * weight);
        (luminance * 255.0).round() as u8
    }

    /// A sample as a byte, rounded to the nearest.
    fn byte(&self, sample: u16) -> u8 {
        if self.largest == 255 { sample as u8 } else { ((u32::from(sample) + 128) / 257) as u8 }
    }
}

fn of_png(bytes: &[u8]) -> Result<Picture, String> {
    let broken = |error: png::DecodingError| format!("the PNG file is broken: {error}");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MOST_BYTES });
    // Palettes become colours, and samples of fewer bits become bytes.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(broken)?;
    let (width, height) = reader.info().size();
    let (n_bytes, (colour, depth)) = (reader.output_buffer_size(), reader.output_color_type());
    let Some(n_bytes) = n_bytes.filter(|&bytes| bytes <= MOST_BYTES) else { return Err(too_large()) };
    let mut found = vec![0; n_bytes];
    reader.next_frame(&mut found).map_err(broken)?;
    let n_channels = match colour {
        ColorType::Grayscale | ColorType::Indexed => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
    };
    let (samples, largest) = match depth {
        BitDepth::Sixteen => {
            (found.as_chunks().0.iter().map(|&two| u16::from_be_bytes(two)).collect(), u16::MAX)
        }
        _ => (found.into_iter().map(u16::from).collect(), 255),
    };
    Ok(Picture { size: [height as usize, width as usize], n_channels, samples, largest })
}

fn of_jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let broken = |error| format!("the JPEG file is broken: {error}");
    let options =
        DecoderOptions::default().set_strict_mode(false).set_max_width(usize::MAX).set_max_height(usize::MAX);
    let mut header = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    header.decode_headers().map_err(broken)?;
    let (Some((width, height)), Some(found)) = (header.dimensions(), header.input_colorspace()) else {
        return Err("the JPEG file has no header".to_string());
    };
    let (colours, n_channels) = match found {
        ColorSpace::Luma => (found, 1),
        ColorSpace::LumaA => (found, 2),
        ColorSpace::RGBA => (found, 4),
        _ => (ColorSpace::RGB, 3),
    };
    if width.saturating_mul(height).saturating_mul(n_channels) > MOST_BYTES {
        return Err(too_large());
    }
    let options = options.jpeg_set_out_colorspace(colours);
    let found = JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode().map_err(broken)?;
    let samples: Vec<u16> = found.into_iter().map(u16::from).collect();
    Ok(Picture { size: [height, width], n_channels, samples, largest: 255 })
}

fn too_large() -> String {
    format!("the picture takes more than {} MiB", MOST_BYTES >> 20)
}

/// Samples of the extents `[outer, n, inner]` with another extent `n_new` in the middle.
fn scaled_axis(samples: &[f32], [outer, n, inner]: [usize; 3], n_new: usize) -> Vec<f32> {
    let mut scaled = vec![0.0; outer * n_new * inner];
    for at in 0..n_new {
        let (first, weights) = weights(n, n_new, at);
        for block in 0..outer {
            let to = &mut scaled[(block * n_new + at) * inner..][..inner];
            for (i, weight) in weights.iter().enumerate() {
                let from = &samples[(block * n + first + i) * inner..][..inner];
                to.iter_mut().zip(from).for_each(|(sum, sample)| *sum += sample * weight);
            }
        }
    }
    scaled
}

/// The first of `n` samples that count for sample `at` of `n_new`, and the weights from there on.
fn weights(n: usize, n_new: usize, at: usize) -> (usize, Vec<f32>) {
    let ratio = n as f32 / n_new as f32;
    let reach = ratio.max(1.0);
    let centre = (at as f32 + 0.5) * ratio;
    let first = ((centre - reach).floor() as i64).clamp(0, n as i64 - 1);
    let end = ((centre + reach).ceil() as i64).clamp(first + 1, n as i64);
    let triangle = |i: i64| {
        let distance = ((i as f32 - (centre - 0.5)) / reach).abs();
        if distance < 1.0 { 1.0 - distance } else { 0.0 }
    };
    let mut weights: Vec<f32> = (first..end).map(triangle).collect();
    let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
    weights.iter_mut().for_each(|weight| *weight /= sum);
    (first as usize, weights)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::data::source::tests::png_file;

    /// Pictures of every type of pixel, with samples of all sizes.
    fn pictures() -> Vec<Vec<u8>> {
        let samples = |n: usize, seed: u32| {
            let size = 13 * 7 * n as u32;
            (0..size).map(move |i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u16)
        };
        let colours =
            [ColorType::Grayscale, ColorType::GrayscaleAlpha, ColorType::Rgb, ColorType::Rgba].into_iter();
        let bytes = colours.clone().zip(1..).map(|(colour, seed)| {
            let bytes: Vec<u8> = samples(colour.samples(), seed).map(|sample| sample as u8).collect();
            png_file([13, 7], colour, BitDepth::Eight, &bytes)
        });
        let words = colours.zip(5..).map(|(colour, seed)| {
            let bytes: Vec<u8> = samples(colour.samples(), seed).flat_map(u16::to_be_bytes).collect();
            png_file([13, 7], colour, BitDepth::Sixteen, &bytes)
        });
        let jpegs = [&include_bytes!("pictures/colours.jpg")[..], include_bytes!("pictures/grey.jpg")];
        bytes.chain(words).chain(jpegs.map(<[u8]>::to_vec)).collect()
    }

    /// The checksums (CRC-32) of the bytes that the crate `image` 0.25.10 makes of [`pictures`], as they are and scaled to
    /// each of the sizes with its filter `Triangle`: of red, green and blue, then of grey.
    const OF_IMAGE: [[u32; 12]; 10] = [
        [
            0x0928E801, 0x661CB213, 0x1EDABC02, 0xCCAEA95D, 0x994E7BFF, 0xCE4C68AA, 0x734581EA, 0xFBDB2615,
            0xB9470477, 0x3B59E8A8, 0x1CF938BF, 0xBEF78532,
        ],
        [
            0x43DAE58B, 0x1D702F1C, 0x198F83BE, 0xCE83DC78, 0x41C22604, 0xBCCA19FC, 0x789343CB, 0x8BB1D29A,
            0xFBF258E6, 0x981C5D83, 0xE9C2CE23, 0x7222565E,
        ],
        [
            0xD5D17A88, 0x45B3605D, 0xA90945F7, 0xC97D7A47, 0x300F8130, 0xEB283D53, 0x20335C35, 0x3161E49F,
            0xF956A5A8, 0xF56179FC, 0x9279EDD3, 0xBEC7A746,
        ],
        [
            0xA1D23AC1, 0x143167C6, 0x17293DEF, 0x7AD0F7CC, 0xEB24344D, 0xCC37AD46, 0xA07C6460, 0x48BD5C3B,
            0x0E7B1BAC, 0x90A29BA6, 0x25F607AD, 0x22AB757D,
        ],
        [
            0xE65272CB, 0xA277BC90, 0x1C10DE97, 0xA74224E0, 0x581BE7A1, 0x35269448, 0xAC477038, 0x38D7A8B4,
            0x08EB1E7B, 0xE24C5AA7, 0x803D8494, 0xCAAA8FD5,
        ],
        [
            0x10937EDA, 0x57158FAC, 0xC9CB19AB, 0xCAF75FF3, 0x51AEE4A0, 0xC3B84FB8, 0x6F80E19B, 0x4666D409,
            0x74281C1D, 0x585034B5, 0x39EA8F3D, 0x6CA9FD59,
        ],
        [
            0x3FB75268, 0xCAB11F77, 0x34227BE1, 0xBA2B6617, 0xEEE4EBAF, 0x3E7EC769, 0xFF7E6614, 0xA6B33D17,
            0x593B9CC3, 0x400509BD, 0x7ED7D174, 0xFDF8230A,
        ],
        [
            0xAFA3CB60, 0x28E59853, 0x1F25FFAB, 0x3E514C08, 0x0817322C, 0xEEB8B85E, 0xA7A8B6C7, 0x65BFB3B6,
            0xFCC84ECD, 0xE011B993, 0x1AF792EB, 0x8EF097C4,
        ],
        [
            0xF9392BCB, 0xCE32326B, 0xA63D9485, 0x028B1E19, 0x7C3CA63F, 0x0250FE80, 0x15DFBDFD, 0x3161E49F,
            0xD26B05BF, 0x2C8E4CAB, 0xFE7CED7B, 0xC91B95F1,
        ],
        [
            0x4BCE5D7B, 0xA73912CC, 0x74857259, 0xCE67FBFE, 0x3F60E78F, 0xED536F67, 0x734581EA, 0xFBDB2615,
            0xE3650268, 0xC4F00A7D, 0xE21C9AAC, 0x1B373E57,
        ],
    ];
    const SIZES: [[usize; 2]; 6] = [[7, 13], [7, 5], [3, 13], [1, 1], [20, 29], [14, 2]];

    #[test]
    fn pixels_of_every_type_are_decoded_and_scaled() {
        for (number, (file, expected)) in pictures().iter().zip(OF_IMAGE).enumerate() {
            let picture = Picture::decoded(file).unwrap();
            assert_eq!(picture.size, SIZES[0]);
            for (size, expected) in SIZES.into_iter().zip(expected.as_chunks::<2>().0) {
                let scaled = if size == picture.size { &picture } else { &picture.scaled(size) };
                let found = [false, true].map(|is_grey| crc32fast::hash(&scaled.bytes(is_grey)));
                assert_eq!(found, *expected, "picture {number} as {size:?}");
            }
        }
    }
}
