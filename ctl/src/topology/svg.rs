//! A placed drawing as SVG 1.1: boxes, lines and text, with the little style that is needed inside the file.

use std::fmt::Write as _;

use super::layout::{FONT, LINE, Layout, Look, PADDING, place};
use super::model::Topology;

/// Draws a topology.
#[must_use]
pub fn picture(topology: &Topology) -> String {
    let layout = place(topology);
    let zone = topology.zone.as_deref().unwrap_or("without a name");
    // Writing to a String cannot fail.
    let mut svg = String::new();
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="monospace" font-size="{FONT}">"#,
        layout.width, layout.height
    )
    .ok();
    writeln!(svg, "<title>Logical topology of zone {}</title>", escaped(zone)).ok();
    writeln!(svg, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##).ok();
    shapes(&mut svg, &layout);
    svg.push_str("</svg>\n");
    svg
}

fn shapes(svg: &mut String, layout: &Layout) {
    for link in &layout.links {
        let ((x1, y1), (x2, y2)) = (link.from, link.to);
        writeln!(
            svg,
            r##"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555555" stroke-width="1.5"/>"##
        )
        .ok();
    }
    for frame in &layout.boxes {
        let (fill, corner) = match frame.look {
            Look::Router => ("#fdf0d5", 0),
            Look::Switch => ("#e3eefb", 0),
            Look::Physical => ("#eeeeee", 16),
        };
        writeln!(
            svg,
            r##"<rect x="{}" y="{}" width="{}" height="{}" rx="{corner}" fill="{fill}" stroke="#555555"/>"##,
            frame.x, frame.y, frame.width, frame.height
        )
        .ok();
        for (at, text) in frame.lines.iter().enumerate() {
            let weight = if at == 0 { r#" font-weight="bold""# } else { "" };
            let (x, y) = (frame.x + PADDING, frame.y + PADDING + at * LINE + FONT);
            // Spaces make the columns.
            writeln!(svg, r#"<text x="{x}" y="{y}"{weight} xml:space="preserve">{}</text>"#, escaped(text))
                .ok();
        }
    }
    for title in &layout.titles {
        writeln!(
            svg,
            r#"<text x="{}" y="{}" font-weight="bold">{}</text>"#,
            title.x,
            title.y,
            escaped(&title.text)
        )
        .ok();
    }
}

/// Text as XML has it. Names come from whoever may write the database: characters that XML 1.0 does not have (section 2.2)
/// are shown as the replacement character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
