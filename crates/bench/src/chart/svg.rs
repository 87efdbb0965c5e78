//! Shapes as an SVG document.

use std::fmt::Write as _;

use super::{Anchor, Color, Dash, Point, SIZE, Shape};

/// The document.
pub(super) fn document(shapes: &[Shape]) -> String {
    let (width, height) = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"Roboto, Helvetica, Arial, sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for shape in shapes {
        element(shape, &mut svg).expect("a string takes all that is written");
    }
    svg.push_str("</svg>\n");
    svg
}

fn element(shape: &Shape, svg: &mut String) -> std::fmt::Result {
    match shape {
        Shape::Line { points, width, color, dash } => {
            let dash = match dash {
                Dash::Solid => String::new(),
                Dash::Dashed(length) => format!(" stroke-dasharray=\"{length}\""),
            };
            writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" \
                 stroke-linejoin=\"round\"{dash}/>",
                path(points),
                hex(*color)
            )
        }
        Shape::Disc { center: (x, y), radius, color } => {
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>",
                hex(*color)
            )
        }
        Shape::Text { text, at: (x, y), anchor, size, color } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let (text, color) = (escaped(text), hex(*color));
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
                 fill=\"{color}\">{text}</text>"
            )
        }
    }
}

fn path(points: &[Point]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn hex([red, green, blue]: Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
