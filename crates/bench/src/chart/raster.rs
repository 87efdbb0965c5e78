//! Shapes as pixels.
//!
//! Lines and discs are drawn by distance: a pixel is covered as far as it is nearer to the line
//! than half its width. Text comes from a font that is part of the program, Roboto Regular
//! (Apache-2.0) cut down to the characters of English; see `fonts/README.md`.

use ab_glyph::{Font as _, FontRef, PxScale, ScaleFont as _, point};

use super::{Anchor, Color, Dash, Point, SIZE, Shape};

const FONT: &[u8] = include_bytes!("../../fonts/Roboto-Regular-ascii.ttf");

/// Pixels in a point: twice as many as on an ordinary screen, for the others.
const SCALE: f64 = 2.0;

/// Rows from the top, three bytes a pixel.
pub(super) struct Pixels {
    pub(super) width: usize,
    pub(super) bytes: Vec<u8>,
}

/// Draws the shapes on white.
pub(super) fn draw(shapes: &[Shape]) -> Pixels {
    let (width, height) = ((SIZE.0 * SCALE) as usize, (SIZE.1 * SCALE) as usize);
    let mut pixels = Pixels { width, bytes: vec![0xff; width * height * 3] };
    let font = FontRef::try_from_slice(FONT).expect("the font is part of the program");
    for shape in shapes {
        match shape {
            Shape::Line { points, width, color, dash } => {
                for pair in points.windows(2) {
                    pixels.line(pair[0], pair[1], *width, *color, *dash);
                }
            }
            Shape::Disc { center, radius, color } => {
                pixels.line(*center, *center, radius * 2.0, *color, Dash::Solid);
            }
            Shape::Text { text, at, anchor, size, color } => {
                pixels.text(&font, text, *at, *anchor, *size, *color)
            }
        }
    }
    pixels
}

impl Pixels {
    /// A line with round ends; a point is a disc.
    fn line(&mut self, from: Point, to: Point, width: f64, color: Color, dash: Dash) {
        let [from, to] = [from, to].map(|(x, y)| (x * SCALE, y * SCALE));
        let half = width * SCALE / 2.0;
        let along = (to.0 - from.0, to.1 - from.1);
        let length = along.0.hypot(along.1);
        let margin = half + 1.0;
        let rows = span(from.1.min(to.1) - margin, from.1.max(to.1) + margin);
        let columns = span(from.0.min(to.0) - margin, from.0.max(to.0) + margin);
        for y in rows {
            for x in columns.clone() {
                let to_pixel = (x as f64 + 0.5 - from.0, y as f64 + 0.5 - from.1);
                // How far along the line the pixel is nearest, from 0 to 1.
                let share = if length > 0.0 {
                    ((to_pixel.0 * along.0 + to_pixel.1 * along.1) / (length * length))
                        .clamp(0.0, 1.0)
                } else {
                    0.0
                };
                if is_gap(dash, share * length) {
                    continue;
                }
                let distance = (to_pixel.0 - along.0 * share).hypot(to_pixel.1 - along.1 * share);
                self.blend(x, y, color, half + 0.5 - distance);
            }
        }
    }

    fn text(
        &mut self,
        font: &FontRef<'_>,
        text: &str,
        at: Point,
        anchor: Anchor,
        size: f64,
        color: Color,
    ) {
        // A font's scale is its line's height; its size is what its letters are drawn on.
        let units = font.units_per_em().expect("the font has a size");
        let scale = PxScale::from((size * SCALE) as f32 * font.height_unscaled() / units);
        let scaled = font.as_scaled(scale);
        let width: f32 = text.chars().map(|c| scaled.h_advance(scaled.glyph_id(c))).sum();
        let before = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let mut x = (at.0 * SCALE) as f32 - before;
        let y = (at.1 * SCALE) as f32;
        for c in text.chars() {
            let id = scaled.glyph_id(c);
            let glyph = id.with_scale_and_position(scale, point(x, y));
            x += scaled.h_advance(id);
            if let Some(outline) = font.outline_glyph(glyph) {
                let corner = outline.px_bounds().min;
                outline.draw(|right, down, coverage| {
                    let (x, y) =
                        (corner.x as i64 + i64::from(right), corner.y as i64 + i64::from(down));
                    self.blend(x, y, color, f64::from(coverage));
                });
            }
        }
    }

    /// Covers a pixel in part; what is outside the picture is not drawn.
    fn blend(&mut self, x: i64, y: i64, color: Color, coverage: f64) {
        let coverage = coverage.clamp(0.0, 1.0);
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let start = (y * self.width + x) * 3;
        if x >= self.width || start >= self.bytes.len() {
            return;
        }
        for (byte, part) in self.bytes[start..start + 3].iter_mut().zip(color) {
            *byte =
                (f64::from(*byte) * (1.0 - coverage) + f64::from(part) * coverage).round() as u8;
        }
    }
}

fn span(from: f64, to: f64) -> std::ops::Range<i64> {
    from.floor() as i64..to.ceil() as i64 + 1
}

fn is_gap(dash: Dash, distance: f64) -> bool {
    match dash {
        Dash::Solid => false,
        Dash::Dashed(length) => (distance / (f64::from(length) * SCALE)) as u64 % 2 == 1,
    }
}
