//! Column chunks, encoded in memory by as many threads as there are.
//!
//! Integers that are never null are packed here, everything else by the Parquet crate. A chunk that its codec hardly
//! shrinks is left as it is packed: it is written and read in less time.
//!
//! Guarantees: a chunk's bytes are those of its values, whichever thread encodes it. Deliberately absent: threads that
//! outlive a call: to start one takes a hundredth of what its share of a segment takes.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::{ColumnCloseResult, get_column_writer};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesPtr};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedColumnWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::Integers;
use super::delta::{self, Packed};
use super::seal::chunk_digest;
use super::writer::WriteRows;
use crate::codec::thread_cpu_ns;

/// One column of one row group.
pub(super) struct Values<'a> {
    pub(super) column: &'a dyn WriteRows,
    pub(super) rows: Range<usize>,
    pub(super) described: ColumnDescPtr,
}

/// A column chunk as it will lie in the file.
pub(super) struct Chunk {
    bytes: Vec<u8>,
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
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(values) = all.get(at) else { return done };
            done.push((at, values.encode(how)));
        }
    };
    let help = || (work(), thread_cpu_ns());
    let values: usize = all.iter().map(|values| values.rows.len()).sum();
    let helpers = (encoders.get() - 1).min(values / VALUES_A_THREAD).min(all.len());
    let (mut done, mut helpers_ns) = (Vec::new(), 0);
    thread::scope(|scope| {
        // Where no more threads may be started, those that are there do it all.
        let start = |_| thread::Builder::new().spawn_scoped(scope, help).ok();
        let helpers: Vec<_> = (0..helpers).map_while(start).collect();
        done = work();
        for helper in helpers {
            let (more, took_ns) = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            done.extend(more);
            helpers_ns += took_ns;
        }
    });
    done.sort_by_key(|(at, _)| *at);
    (done.into_iter().map(|(_, chunk)| chunk).collect(), helpers_ns)
}

impl Values<'_> {
    fn encode(&self, how: &WriterPropertiesPtr) -> Encoded {
        let path = self.described.path();
        let is_packed = how.encoding(path) == Some(Encoding::DELTA_BINARY_PACKED) && !how.dictionary_enabled(path);
        let chunk = match self.column.integers(self.rows.clone()).filter(|_| is_packed) {
            Some(Integers::Wide(values)) => self.encode_integers(values, how),
            Some(Integers::Narrow(values)) => self.encode_integers(&values, how),
            None => self.encode_by_crate(how),
        };
        let (bytes, closed) = chunk?;
        let digest = chunk_digest(&bytes);
        Ok(Chunk { bytes, closed, digest })
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

    fn encode_integers<T: Packed + Ranged>(
        &self,
        values: &[T],
        how: &WriterPropertiesPtr,
    ) -> Result<(Vec<u8>, ColumnCloseResult), ParquetError> {
        let path = self.described.path();
        let pages: Vec<Vec<u8>> = values.chunks(PAGE_VALUES).map(packed).collect();
        let packed_bytes: Vec<usize> = pages.iter().map(Vec::len).collect();
        let (codec, stored) = compressed(pages, how.compression(path))?;
        let mut sink = TrackedWrite::new(Vec::with_capacity(stored.iter().map(Vec::len).sum::<usize>() + 64));
        let mut writer = SerializedPageWriter::new(&mut sink);
        let (mut bytes, mut unpacked_bytes) = (0, 0);
        for ((packed_bytes, stored), values) in packed_bytes.into_iter().zip(stored).zip(values.chunks(PAGE_VALUES)) {
            let page = Page::DataPage {
                buf: stored.into(),
                num_values: values.len() as u32,
                encoding: Encoding::DELTA_BINARY_PACKED,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(page, packed_bytes))?;
            bytes += written.compressed_size as u64;
            unpacked_bytes += written.uncompressed_size as u64;
        }
        let mut metadata = ColumnChunkMetaData::builder(self.described.clone())
            .set_compression(codec)
            .set_encodings(vec![Encoding::RLE, Encoding::DELTA_BINARY_PACKED])
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(unpacked_bytes as i64)
            .set_num_values(values.len() as i64)
            .set_data_page_offset(0);
        if how.statistics_enabled(path) != EnabledStatistics::None && !values.is_empty() {
            metadata = metadata.set_statistics(T::range(values));
        }
        let closed = ColumnCloseResult {
            bytes_written: bytes,
            rows_written: values.len() as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((sink.into_inner()?, closed))
    }
}

/// Values a page: so many at most are decoded at one time.
const PAGE_VALUES: usize = 1 << 18;

/// What a codec must save to be worth reading through: one byte of so many.
const WORTHWHILE: usize = 50;

fn packed<T: Packed>(values: &[T]) -> Vec<u8> {
    let mut page = Vec::with_capacity(2 * values.len() + 64);
    delta::pack(values, &mut page);
    page
}

/// The pages of a chunk as they are stored, and what they are compressed by.
fn compressed(pages: Vec<Vec<u8>>, codec: Compression) -> Result<(Compression, Vec<Vec<u8>>), ParquetError> {
    let compress = |page: &Vec<u8>| -> Result<Vec<u8>, ParquetError> {
        match codec {
            Compression::ZSTD(level) => Ok(zstd::bulk::compress(page, level.compression_level())?),
            Compression::LZ4_RAW => Ok(lz4_flex::block::compress(page)),
            other => Err(ParquetError::General(format!(
                "expected none, zstd or lz4, found {other}. Write with one of these"
            ))),
        }
    };
    if codec == Compression::UNCOMPRESSED {
        return Ok((codec, pages));
    }
    let stored: Vec<_> = pages.iter().map(compress).collect::<Result<_, _>>()?;
    let [before, after] = [&pages, &stored].map(|pages| pages.iter().map(Vec::len).sum::<usize>());
    if after + before / WORTHWHILE > before {
        return Ok((Compression::UNCOMPRESSED, pages));
    }
    Ok((codec, stored))
}

/// Integers whose smallest and largest a footer tells.
trait Ranged: Sized {
    fn range(values: &[Self]) -> Statistics;
}

impl Ranged for i64 {
    fn range(values: &[Self]) -> Statistics {
        let [least, most] =
            [values.iter().copied().fold(i64::MAX, i64::min), values.iter().copied().fold(i64::MIN, i64::max)];
        Statistics::int64(Some(least), Some(most), None, Some(0), false)
    }
}

impl Ranged for i32 {
    fn range(values: &[Self]) -> Statistics {
        Statistics::int32(values.iter().min().copied(), values.iter().max().copied(), None, Some(0), false)
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
