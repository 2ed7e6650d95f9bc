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
    use image::imageops::FilterType;
    use image::{DynamicImage, ImageFormat};

    /// Pictures of every type of pixel, with samples of all sizes.
    fn pictures() -> Vec<DynamicImage> {
        let (width, height) = (13, 7);
        let samples = |n: u32, seed: u32| {
            (0..width * height * n)
                .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u16)
                .collect()
        };
        let bytes = |n, seed| -> Vec<u8> {
            let samples: Vec<u16> = samples(n, seed);
            samples.into_iter().map(|sample| sample as u8).collect()
        };
        macro_rules! picture {
            ($kind:ident, $samples:expr) => {
                DynamicImage::$kind(image::ImageBuffer::from_vec(width, height, $samples).unwrap())
            };
        }
        vec![
            picture!(ImageLuma8, bytes(1, 1)),
            picture!(ImageLumaA8, bytes(2, 2)),
            picture!(ImageRgb8, bytes(3, 3)),
            picture!(ImageRgba8, bytes(4, 4)),
            picture!(ImageLuma16, samples(1, 5)),
            picture!(ImageLumaA16, samples(2, 6)),
            picture!(ImageRgb16, samples(3, 7)),
            picture!(ImageRgba16, samples(4, 8)),
        ]
    }

    /// The bytes are those of the crate `image`, whose decoders are the same.
    fn check(file: &[u8]) {
        let (ours, theirs) = (Picture::decoded(file).unwrap(), image::load_from_memory(file).unwrap());
        let check = |ours: &Picture, theirs: &DynamicImage| {
            assert_eq!(ours.size, [theirs.height() as usize, theirs.width() as usize]);
            assert_eq!(ours.bytes(false), *theirs.to_rgb8(), "{:?}", theirs.color());
            assert_eq!(ours.bytes(true), *theirs.to_luma8(), "{:?}", theirs.color());
        };
        check(&ours, &theirs);
        for [height, width] in [[7, 5], [3, 13], [1, 1], [20, 29], [14, 2]] {
            let theirs = theirs.resize_exact(width, height, FilterType::Triangle);
            check(&ours.scaled([height as usize, width as usize]), &theirs);
        }
    }

    #[test]
    fn pixels_of_every_type_are_decoded_and_scaled() {
        for picture in pictures() {
            let mut file = Cursor::new(vec![]);
            picture.write_to(&mut file, ImageFormat::Png).unwrap();
            check(&file.into_inner());
        }
        for picture in [pictures()[2].clone(), pictures()[0].clone()] {
            let mut file = Cursor::new(vec![]);
            picture.write_to(&mut file, ImageFormat::Jpeg).unwrap();
            check(&file.into_inner());
        }
    }
}
