//! Where everything of a chart goes.

use super::{Anchor, Chart, Color, Dash, Point, SIZE, Series, Shape};

const LEFT: f64 = 64.0;
const RIGHT: f64 = SIZE.0 - 204.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = SIZE.1 - 48.0;

const INK: Color = [0x22, 0x22, 0x22];
const GREY: Color = [0x66, 0x66, 0x66];
const FAINT: Color = [0xe2, 0xe2, 0xe2];

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLORS: [Color; 7] = [
    [0xe6, 0x9f, 0x00],
    [0x00, 0x72, 0xb2],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0x56, 0xb4, 0xe9],
    [0xd5, 0x5e, 0x00],
    [0x8c, 0x6d, 0x1f],
];

const TEXT_SIZE: f64 = 14.0;
const LEGEND_STEP: f64 = 24.0;
const MARK_RADIUS: f64 = 4.0;

/// The chart's shapes, in the order of drawing.
pub(super) fn shapes(chart: &Chart) -> Vec<Shape> {
    let scale = Scale::of(chart);
    let mut shapes = vec![
        text(&chart.title, (LEFT, 32.0), Anchor::Start, 20.0, INK),
        text(&chart.subtitle, (LEFT, 54.0), Anchor::Start, 13.0, GREY),
        text(&chart.y_label, (LEFT - 10.0, TOP - 14.0), Anchor::End, TEXT_SIZE, GREY),
    ];
    grid(chart, &scale, &mut shapes);
    let colors = colors(chart);
    for (series, color) in chart.series.iter().zip(&colors).rev() {
        draw(series, *color, |place, value| scale.point(place, value), &mut shapes);
    }
    for (row, (series, color)) in chart.series.iter().zip(&colors).enumerate() {
        legend(series, *color, TOP + 8.0 + row as f64 * LEGEND_STEP, &mut shapes);
    }
    shapes
}

/// From places and values to points.
struct Scale {
    places: usize,
    step: f64,
    top: f64,
}

impl Scale {
    /// Up to a round number above the largest value.
    fn of(chart: &Chart) -> Self {
        let values = chart.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let largest = values.fold(0.0_f64, f64::max).max(1e-9);
        let power = 10_f64.powf((largest / 6.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| largest / step <= 6.5).unwrap_or(power * 10.0);
        Self { places: chart.x_labels.len(), step, top: (largest / step).ceil() * step }
    }

    fn x(&self, place: f64) -> f64 {
        let distance = (RIGHT - LEFT) / self.places.max(1) as f64;
        LEFT + (place + 0.5) * distance
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - value / self.top * (BOTTOM - TOP)
    }

    fn point(&self, place: f64, value: f64) -> Point {
        (self.x(place), self.y(value))
    }

    fn lines(&self) -> impl Iterator<Item = f64> + '_ {
        let count = (self.top / self.step).round() as usize;
        (0..=count).map(|idx| idx as f64 * self.step)
    }
}

fn grid(chart: &Chart, scale: &Scale, shapes: &mut Vec<Shape>) {
    for value in scale.lines() {
        let color = if value == 0.0 { GREY } else { FAINT };
        shapes.push(line(vec![(LEFT, scale.y(value)), (RIGHT, scale.y(value))], 1.0, color));
        let label = if scale.step < 1.0 { format!("{value:.1}") } else { format!("{value}") };
        shapes.push(text(
            &label,
            (LEFT - 10.0, scale.y(value) + 5.0),
            Anchor::End,
            TEXT_SIZE,
            GREY,
        ));
    }
    for (idx, label) in chart.x_labels.iter().enumerate() {
        let x = scale.x(idx as f64);
        shapes.push(line(vec![(x, BOTTOM), (x, BOTTOM + 5.0)], 1.0, GREY));
        shapes.push(text(label, (x, BOTTOM + 24.0), Anchor::Middle, TEXT_SIZE, GREY));
    }
}

/// A reference is black, the others have a colour each.
fn colors(chart: &Chart) -> Vec<Color> {
    let mut rest = COLORS.iter().copied().cycle();
    let mut color =
        |series: &Series| if series.is_reference { INK } else { rest.next().unwrap_or(INK) };
    chart.series.iter().map(&mut color).collect()
}

fn draw(
    series: &Series,
    color: Color,
    to_point: impl Fn(f64, f64) -> Point,
    shapes: &mut Vec<Shape>,
) {
    let points: Vec<Point> =
        series.points.iter().map(|(place, value)| to_point(*place, *value)).collect();
    let marks = points.clone();
    shapes.push(stroke(series, points, color));
    if !series.is_reference {
        shapes.extend(marks.into_iter().map(|center| Shape::Disc {
            center,
            radius: MARK_RADIUS,
            color,
        }));
    }
}

fn legend(series: &Series, color: Color, y: f64, shapes: &mut Vec<Shape>) {
    let x = RIGHT + 14.0;
    shapes.push(stroke(series, vec![(x, y), (x + 30.0, y)], color));
    if !series.is_reference {
        shapes.push(Shape::Disc { center: (x + 15.0, y), radius: MARK_RADIUS, color });
    }
    shapes.push(text(&series.name, (x + 38.0, y + 5.0), Anchor::Start, TEXT_SIZE, INK));
}

fn stroke(series: &Series, points: Vec<Point>, color: Color) -> Shape {
    let dash = if series.is_reference { Dash::Dashed(6) } else { Dash::Solid };
    Shape::Line { points, width: 2.5, color, dash }
}

fn line(points: Vec<Point>, width: f64, color: Color) -> Shape {
    Shape::Line { points, width, color, dash: Dash::Solid }
}

fn text(text: &str, at: Point, anchor: Anchor, size: f64, color: Color) -> Shape {
    Shape::Text { text: text.to_owned(), at, anchor, size, color }
}
