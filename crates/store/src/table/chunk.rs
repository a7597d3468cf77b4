//! Column chunks, encoded in memory by as many threads as there are.
//!
//! Integers are packed here, everything else by the Parquet crate. A chunk that its codec hardly shrinks is left as it
//! is packed, by what becomes of a sample where it is long: it is written and read in less time.
//!
//! Guarantees: a chunk's bytes are those of its values, whichever thread encodes it.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::{ColumnCloseResult, get_column_writer};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesPtr};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedColumnWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::packed::PackedColumn;
use super::seal::chunk_digest;
use super::writer::WriteRows;
use crate::on_threads::on_threads;

/// One column of one row group.
pub(super) struct Values<'a> {
    pub(super) column: &'a dyn WriteRows,
    pub(super) rows: Range<usize>,
    pub(super) described: ColumnDescPtr,
}

/// A column chunk as it will lie in the file.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) closed: ColumnCloseResult,
    pub(super) digest: String,
}

/// The result of encoding a chunk.
type Encoded = Result<Chunk, ParquetError>;

/// Values for which another thread is worth starting: it takes a hundredth of the time that they take.
const VALUES_A_THREAD: usize = 1 << 18;

/// Encodes each of `all`, on at most so many threads. Returns the chunks in order, and the processor time of threads
/// other than the caller's.
pub(super) fn encode(all: &[Values<'_>], how: &WriterPropertiesPtr, encoders: NonZeroUsize) -> (Vec<Encoded>, u64) {
    let values: usize = all.iter().map(|values| values.rows.len()).sum();
    let threads = NonZeroUsize::MIN.saturating_add(values / VALUES_A_THREAD).min(encoders);
    on_threads(all.len(), threads, |at| all[at].encode(how))
}

impl Values<'_> {
    fn encode(&self, how: &WriterPropertiesPtr) -> Encoded {
        let path = self.described.path();
        let is_packed = how.encoding(path) == Some(Encoding::DELTA_BINARY_PACKED) && !how.dictionary_enabled(path);
        let Some(pages) = is_packed.then(|| self.pages()).flatten() else {
            let (bytes, closed) = self.encode_by_crate(how)?;
            return Ok(Chunk { digest: chunk_digest(&bytes), bytes, closed });
        };
        let is_ranged = how.statistics_enabled(path) != EnabledStatistics::None;
        Chunk::of_pages(pages, &self.described, is_ranged, how.compression(path))
    }

    /// Its pages, if its values can be packed.
    fn pages(&self) -> Option<Vec<PackedColumn>> {
        let page = |start: usize| {
            let rows = start..self.rows.end.min(start + PAGE_VALUES);
            let mut page = PackedColumn::of(self.described.max_def_level() > 0);
            self.column.pack(rows, &mut page).then_some(page)
        };
        self.rows.clone().step_by(PAGE_VALUES).map(page).collect()
    }

    fn encode_by_crate(&self, how: &WriterPropertiesPtr) -> Result<(Vec<u8>, ColumnCloseResult), ParquetError> {
        let (mut sink, mut closed) = (TrackedWrite::new(Vec::new()), None);
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let close = |result| {
            closed = Some(result);
            Ok(())
        };
        let column = get_column_writer(self.described.clone(), how.clone(), pages);
        self.column.write(self.rows.clone(), SerializedColumnWriter::new(column, Some(Box::new(close))))?;
        let closed = closed.ok_or_else(|| ParquetError::General("a column was not closed".into()))?;
        Ok((sink.into_inner()?, closed))
    }
}

impl Chunk {
    /// A chunk of packed pages, compressed by `codec` where that is worthwhile.
    pub(super) fn of_pages(
        pages: Vec<PackedColumn>,
        described: &ColumnDescPtr,
        is_ranged: bool,
        codec: Compression,
    ) -> Encoded {
        let rows: Vec<usize> = pages.iter().map(PackedColumn::rows).collect();
        let range = pages.iter().filter_map(PackedColumn::range);
        let range = range.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let nulls = pages.iter().map(PackedColumn::nulls).sum::<usize>() as u64;
        let pages: Vec<Vec<u8>> = pages.into_iter().map(PackedColumn::finish).collect();
        let unpacked: Vec<usize> = pages.iter().map(Vec::len).collect();
        let (codec, stored) = compressed(pages, codec)?;
        let mut sink = TrackedWrite::new(Vec::with_capacity(stored.iter().map(|page| page.len() + 64).sum()));
        let mut writer = SerializedPageWriter::new(&mut sink);
        let (mut bytes, mut unpacked_bytes) = (0, 0);
        for ((unpacked, stored), &rows) in unpacked.into_iter().zip(stored).zip(&rows) {
            let page = Page::DataPage {
                buf: stored.into(),
                num_values: rows as u32,
                encoding: Encoding::DELTA_BINARY_PACKED,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(page, unpacked))?;
            bytes += written.compressed_size as u64;
            unpacked_bytes += written.uncompressed_size as u64;
        }
        let rows = rows.iter().sum::<usize>();
        let mut metadata = ColumnChunkMetaData::builder(described.clone())
            .set_compression(codec)
            .set_encodings(vec![Encoding::RLE, Encoding::DELTA_BINARY_PACKED])
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(unpacked_bytes as i64)
            .set_num_values(rows as i64)
            .set_data_page_offset(0);
        if let Some(range) = range.filter(|_| is_ranged) {
            metadata = metadata.set_statistics(statistics(range, nulls, described.physical_type()));
        }
        let closed = ColumnCloseResult {
            bytes_written: bytes,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let bytes = sink.into_inner()?;
        Ok(Chunk { digest: chunk_digest(&bytes), bytes, closed })
    }
}

/// Values a page: so many at most are decoded at one time.
const PAGE_VALUES: usize = 1 << 18;

/// What a codec must save to be worth reading through: one byte of so many.
const WORTHWHILE: usize = 50;

/// Bytes that are compressed to see whether the rest is worth it, of a page of at least four times as many.
const SAMPLE: usize = 1 << 14;

/// The pages of a chunk as they are stored, and what they are compressed by.
fn compressed(pages: Vec<Vec<u8>>, codec: Compression) -> Result<(Compression, Vec<Vec<u8>>), ParquetError> {
    let is_promising = |page: &Vec<u8>| {
        let sample = page.get(page.len() / 2..).and_then(|half| half.get(..SAMPLE));
        let Some(sample) = sample.filter(|_| page.len() >= 4 * SAMPLE) else { return Ok(true) };
        compress(sample, codec).map(|stored| is_worthwhile(SAMPLE, stored.len()))
    };
    let is_promising = |pages: &[Vec<u8>]| pages.iter().map(is_promising).collect::<Result<Vec<_>, _>>();
    if codec == Compression::UNCOMPRESSED || !is_promising(&pages)?.contains(&true) {
        return Ok((Compression::UNCOMPRESSED, pages));
    }
    let stored: Vec<_> = pages.iter().map(|page| compress(page, codec)).collect::<Result<_, _>>()?;
    let [before, after] = [&pages, &stored].map(|pages| pages.iter().map(Vec::len).sum::<usize>());
    if !is_worthwhile(before, after) {
        return Ok((Compression::UNCOMPRESSED, pages));
    }
    Ok((codec, stored))
}

fn is_worthwhile(before: usize, after: usize) -> bool {
    after + before / WORTHWHILE <= before
}

fn compress(page: &[u8], codec: Compression) -> Result<Vec<u8>, ParquetError> {
    thread_local! {
        /// zstd's memory, which takes longer to be made than a short page to be compressed.
        static ZSTD: RefCell<zstd::bulk::Compressor<'static>> = RefCell::default();
    }
    match codec {
        Compression::ZSTD(level) => ZSTD.with_borrow_mut(|zstd| {
            zstd.set_compression_level(level.compression_level())?;
            Ok(zstd.compress(page)?)
        }),
        Compression::LZ4_RAW => Ok(lz4_flex::block::compress(page)),
        other => {
            Err(ParquetError::General(format!("expected none, zstd or lz4, found {other}. Write with one of these")))
        }
    }
}

/// What the footer says of the smallest value and the largest.
fn statistics((least, most): (i64, i64), nulls: u64, physical: Physical) -> Statistics {
    let nulls = Some(nulls);
    match physical {
        Physical::INT32 => Statistics::int32(Some(least as i32), Some(most as i32), None, nulls, false),
        _ => Statistics::int64(Some(least), Some(most), None, nulls, false),
    }
}

impl Length for &Chunk {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl<'a> ChunkReader for &'a Chunk {
    type T = &'a [u8];

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.bytes.get(start as usize..).ok_or_else(|| ParquetError::EOF(format!("no byte {start} in a chunk")))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let rest = self.get_read(start)?;
        let bytes = rest.get(..length).ok_or_else(|| ParquetError::EOF(format!("{length} bytes from {start}")))?;
        Ok(Bytes::copy_from_slice(bytes))
    }
}
