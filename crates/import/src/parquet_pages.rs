//! A file of Parquet of which no page says that it holds more than it can.
//!
//! The library that reads Parquet makes room for as many values as a page's header, or a text's packing, says there
//! are, and ends the process where there is no such room. So each page is looked at on its way: a value of a
//! dictionary takes a byte at least, and texts whose number stands within their packing are refused.

use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;

/// A file whose pages are checked.
pub(crate) struct CheckedFile<F>(pub F);

struct CheckedGroup<'a>(Box<dyn RowGroupReader + 'a>);

struct CheckedPages(Box<dyn PageReader>);

impl<F: FileReader> FileReader for CheckedFile<F> {
    fn metadata(&self) -> &ParquetMetaData {
        self.0.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.0.num_row_groups()
    }

    fn get_row_group(&self, group: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(CheckedGroup(self.0.get_row_group(group)?)))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

impl RowGroupReader for CheckedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, column: usize) -> Result<Box<dyn PageReader>> {
        Ok(Box::new(CheckedPages(self.0.get_column_page_reader(column)?)))
    }

    fn get_column_bloom_filter(&self, column: usize) -> Option<&Sbbf> {
        self.0.get_column_bloom_filter(column)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page()?.map(checked).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

fn checked(page: Page) -> Result<Page> {
    let (values, bytes) = (page.num_values(), page.buffer().len());
    if matches!(page, Page::DictionaryPage { .. }) && values as usize > bytes {
        return Err(ParquetError::General(format!("a dictionary of {values} values in {bytes} bytes")));
    }
    match page.encoding() {
        packed @ (Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY) => Err(ParquetError::General(
            format!("texts in {packed}, which none but plain ones and dictionaries are read of"),
        )),
        _ => Ok(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_has_no_more_values_than_bytes() {
        let of = |num_values| Page::DictionaryPage {
            buf: vec![0; 4].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert!(checked(of(4)).is_ok());
        assert!(checked(of(5)).unwrap_err().to_string().contains("5 values in 4 bytes"));
    }
}
