//! A line chart, as SVG and as PNG, without any font or library of the machine.
//!
//! ```text
//! Chart ──layout──► shapes (lines, marks, text) ──┬─► svg.rs      text
//!                                                 └─► raster.rs ─► png.rs   pixels
//! ```
//!
//! Both forms are drawn from the same shapes, so they show the same.

mod layout;
mod png;
mod raster;
mod svg;

/// Lines over labelled places from left to right, all of the same distance.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, in one line.
    pub title: String,
    /// What else one must know, in one line.
    pub subtitle: String,
    /// What the places are.
    pub x_labels: Vec<String>,
    /// The unit of the values.
    pub y_label: String,
    /// The lines, the one to be on top first.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Place, counted from 0, and value, at least 0.
    pub points: Vec<(f64, f64)>,
    /// Whether it is what the others are compared with; drawn dashed and without marks.
    pub is_reference: bool,
}

impl Chart {
    /// As an SVG document.
    pub fn to_svg(&self) -> String {
        svg::document(&layout::shapes(self))
    }

    /// As a PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        let pixels = raster::draw(&layout::shapes(self));
        png::encode(pixels.width, &pixels.bytes)
    }
}

/// Width and height in points, of both forms.
const SIZE: Point = (960.0, 540.0);

/// Right and down, in points.
type Point = (f64, f64);

/// Red, green, blue.
type Color = [u8; 3];

/// Something to draw.
#[derive(Clone, Debug)]
enum Shape {
    /// Straight lines from point to point.
    Line { points: Vec<Point>, width: f64, color: Color, dash: Dash },
    /// A filled circle.
    Disc { center: Point, radius: f64, color: Color },
    /// One line of text, `at` on its base line.
    Text { text: String, at: Point, anchor: Anchor, size: f64, color: Color },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dash {
    Solid,
    /// As long as the gaps between, in points.
    Dashed(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> Chart {
        let line = |name: &str, values: [f64; 3], is_reference| Series {
            name: name.into(),
            points: values.iter().enumerate().map(|(idx, value)| (idx as f64, *value)).collect(),
            is_reference,
        };
        Chart {
            title: "a & b".into(),
            subtitle: "made up".into(),
            x_labels: ["8 KiB", "64 KiB", "1 MiB"].map(String::from).to_vec(),
            y_label: "MB/s".into(),
            series: vec![line("reference", [56.0; 3], true), line("to", [1.2, 8.0, 40.0], false)],
        }
    }

    #[test]
    fn the_svg_names_everything_and_escapes_it() {
        let svg = made_up().to_svg();
        for text in
            ["a &amp; b", "made up", "8 KiB", "64 KiB", "1 MiB", "MB/s", "reference", "to", "60"]
        {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_png_has_the_size_that_it_says_and_is_not_blank() {
        let png = made_up().to_png();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(u32::from_be_bytes(png[16..20].try_into().unwrap()), 2 * SIZE.0 as u32);
        assert!(png.len() > 5_000, "{}", png.len());
    }

    #[test]
    fn a_chart_without_points_is_drawn_all_the_same() {
        let mut chart = made_up();
        chart.series.clear();
        assert!(!chart.to_png().is_empty());
    }
}
