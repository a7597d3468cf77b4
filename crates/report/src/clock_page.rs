//! What `tickscope clock` found, as pages: advice first, then figures and tables, in the style of a run's page.
//!
//! Assumes: names of clocks and hypervisors are untrusted as any text. Guarantees: no script, nothing asked of a network.
//! Deliberately absent: computing; every figure is drawn from what the study holds.

mod example;
mod study;

use std::fmt::Write;

use crate::plot::Ink;
use crate::text::Text;

pub use example::example_page;
pub use study::study_page;

const STYLE: &str = include_str!("../page/page.css");

fn page(title: &str, about: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0} · tickscope</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<div class=\"bar\"><p class=\"brand\">tickscope</p></div>\n<h1>{0}</h1>\n\
         <p class=\"about\">{1}</p>\n</header>\n<main>\n{body}\n</main>\n<footer><p>tickscope {2}</p></footer>\n</body>\n</html>\n",
        Text(title),
        Text(about),
        env!("CARGO_PKG_VERSION")
    )
}

fn legend(words: impl Iterator<Item = String>) -> String {
    let entries: String = words.enumerate().map(|(number, words)| Ink::of(number).legend(&words)).collect();
    format!("<p class=\"legend\">{entries}</p>")
}

/// A table whose first column names the rows.
fn table(name: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><table class=\"cards\"><thead><tr>{}</tr></thead><tbody>",
        columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", Text(column))).collect::<String>()
    );
    for row in rows {
        let mut cells = row.iter().zip(columns);
        let first = cells.next().map(|(cell, _)| cell.as_str()).unwrap_or_default();
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Text(first));
        for (cell, column) in cells {
            let _ = write!(html, "<td data-label=\"{}\">{}</td>", Text(column), Text(cell));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}
