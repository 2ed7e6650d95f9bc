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

/// The weights of red, green and blue in the luma of ITU-R BT.601, in parts of 2^16. PIL's `convert("L")` has the same ones;
/// OpenCV and torchvision differ from it by rounding.
const LUMA: [u32; 3] = [19_595, 38_470, 7_471];

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
        let parts = [red, green, blue].map(|sample| u32::from(self.byte(sample)));
        let luma: u32 = parts.iter().zip(LUMA).map(|(part, weight)| part * weight).sum();
        ((luma + 0x8000) >> 16) as u8
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
    /// each of the sizes with its filter `Triangle`.
    const OF_IMAGE: [[u32; 6]; 10] = [
        [0x0928E801, 0x1EDABC02, 0x994E7BFF, 0x734581EA, 0xB9470477, 0x1CF938BF],
        [0x43DAE58B, 0x198F83BE, 0x41C22604, 0x789343CB, 0xFBF258E6, 0xE9C2CE23],
        [0xD5D17A88, 0xA90945F7, 0x300F8130, 0x20335C35, 0xF956A5A8, 0x9279EDD3],
        [0xA1D23AC1, 0x17293DEF, 0xEB24344D, 0xA07C6460, 0x0E7B1BAC, 0x25F607AD],
        [0xE65272CB, 0x1C10DE97, 0x581BE7A1, 0xAC477038, 0x08EB1E7B, 0x803D8494],
        [0x10937EDA, 0xC9CB19AB, 0x51AEE4A0, 0x6F80E19B, 0x74281C1D, 0x39EA8F3D],
        [0x3FB75268, 0x34227BE1, 0xEEE4EBAF, 0xFF7E6614, 0x593B9CC3, 0x7ED7D174],
        [0xAFA3CB60, 0x1F25FFAB, 0x0817322C, 0xA7A8B6C7, 0xFCC84ECD, 0x1AF792EB],
        [0xF9392BCB, 0xA63D9485, 0x7C3CA63F, 0x15DFBDFD, 0xD26B05BF, 0xFE7CED7B],
        [0x4BCE5D7B, 0x74857259, 0x3F60E78F, 0x734581EA, 0xE3650268, 0xE21C9AAC],
    ];
    const SIZES: [[usize; 2]; 6] = [[7, 13], [7, 5], [3, 13], [1, 1], [20, 29], [14, 2]];

    #[test]
    fn pixels_of_every_type_are_decoded_and_scaled() {
        for (number, (file, expected)) in pictures().iter().zip(OF_IMAGE).enumerate() {
            let picture = Picture::decoded(file).unwrap();
            assert_eq!(picture.size, SIZES[0]);
            for (size, expected) in SIZES.into_iter().zip(expected) {
                let scaled = if size == picture.size { &picture } else { &picture.scaled(size) };
                let colours = scaled.bytes(false);
                assert_eq!(crc32fast::hash(&colours), expected, "picture {number} as {size:?}");
                let pixels = colours.as_chunks::<3>().0;
                let expected: Vec<u8> = pixels.iter().map(|pixel| luma(*pixel).round() as u8).collect();
                // Half a bit of the weights is the only difference.
                let is_near = |(found, expected): (&u8, &u8)| found.abs_diff(*expected) <= 1;
                assert!(
                    scaled.bytes(true).iter().zip(&expected).all(is_near),
                    "picture {number} as {size:?}"
                );
            }
        }
    }

    /// The luma of ITU-R BT.601.
    fn luma([red, green, blue]: [u8; 3]) -> f64 {
        0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)
    }

    /// The numbers are those of `Image.convert("L")` of PIL.
    #[test]
    fn grey_is_that_of_pil() {
        let colours = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [12, 34, 56], [7, 7, 7]];
        let samples = colours.concat();
        let file = png_file([6, 1], ColorType::Rgb, BitDepth::Eight, &samples);
        assert_eq!(Picture::decoded(&file).unwrap().bytes(true), [76, 150, 29, 226, 30, 7]);
        let samples: Vec<u8> = samples.iter().flat_map(|&sample| [sample, sample]).collect();
        let file = png_file([6, 1], ColorType::Rgb, BitDepth::Sixteen, &samples);
        assert_eq!(Picture::decoded(&file).unwrap().bytes(true), [76, 150, 29, 226, 30, 7]);
    }
}
