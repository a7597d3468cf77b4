//! What `tickscope clock` found, as pages: advice first, then figures and tables, in the style of a run's page.
//!
//! Assumes: names of clocks and hypervisors are untrusted as any text. Guarantees: no script, nothing asked of a network.
//! Deliberately absent: computing; every figure is drawn from what the study holds.

mod cm_star;
mod example;
mod granularity;
mod ramps;
mod recorded;
mod study;
mod two_words;

use std::fmt::Write;

use tickscope_clock::advice::Chapter;
use tickscope_clock::factor::Factor;

use crate::plot::Ink;
use crate::text::Text;

pub use example::example_page;
pub use granularity::granularity_page;
pub use study::study_page;
pub use two_words::two_words_page;

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

/// What there is to know first: a paragraph each.
fn lead(paragraphs: &[String]) -> String {
    let paragraphs: String = paragraphs.iter().map(|words| format!("<p>{}</p>\n", Text(words))).collect();
    format!("<section class=\"lead\" aria-label=\"Advice\">{paragraphs}</section>")
}

/// The same in chapters, after what contradicts a clock's promise.
fn lead_of(findings: &[String], chapters: &[Chapter]) -> String {
    let findings: String = findings.iter().map(|words| format!("<p class=\"bad\">{}</p>\n", Text(words))).collect();
    let chapters = chapters.iter().map(|Chapter { head, sentences }| {
        let sentences: String = sentences.iter().map(|words| format!("<p>{}</p>\n", Text(words))).collect();
        format!("<h3>{}</h3>{sentences}", Text(head))
    });
    format!("<section class=\"lead\" aria-label=\"Advice\">{findings}{}</section>", chapters.collect::<String>())
}

/// A part of the page, and how the list of parts calls it.
struct Part {
    title: String,
    body: String,
}

impl Part {
    fn of(title: &str, body: String) -> Self {
        Self { title: title.into(), body }
    }
}

/// A list of the parts, then each.
fn parts(parts: &[Part]) -> String {
    let links = parts.iter().enumerate().map(|(n, part)| format!("<a href=\"#part-{n}\">{}</a>", Text(&part.title)));
    let links: String = links.collect();
    let parts = parts.iter().enumerate().map(|(number, part)| {
        format!("<section id=\"part-{number}\"><h2>{}</h2>{}</section>\n", Text(&part.title), part.body)
    });
    format!("<nav aria-label=\"Parts of this page\">{links}</nav>\n{}", parts.collect::<String>())
}

/// Words that a figure or a table uses, and what they mean.
fn terms(terms: &[(&str, &str)]) -> String {
    let entries = terms.iter().map(|(term, words)| format!("<dt>{}</dt><dd>{}</dd>", Text(term), Text(words)));
    format!("<dl class=\"terms\">{}</dl>", entries.collect::<String>())
}

/// A figure under its title.
fn panel(title: &str, svg: &str) -> String {
    format!("<div class=\"panel\"><h3>{}</h3>{svg}</div>", Text(title))
}

/// Figures side by side; those that are not worth showing first behind a line that opens them.
fn multiples(first: &str, others: &str, summary: &str) -> String {
    let first = if first.is_empty() { String::new() } else { format!("<div class=\"multiples\">{first}</div>") };
    if others.is_empty() {
        return first;
    }
    format!("{first}<details><summary>{}</summary><div class=\"multiples\">{others}</div></details>", Text(summary))
}

/// A factor with what it lies between.
fn between(factor: Option<Factor>) -> String {
    factor.map_or_else(|| "–".into(), |factor| factor.to_string())
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
