//! Finding records by time (ListOffsets): per record, compressed batches included.

use super::partition::Partition;
use super::read::{Place, Stop};
use super::scan::{ScanError, Scanner};
use crate::error::ReadError;
use crate::layout::SegmentFile;
use crate::record::{BATCH_OVERHEAD, BatchHeader, batch_crc, decompress, for_each_head};
use crate::volume::VolumeFile;

/// A record found by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampHit {
    /// The record's offset.
    pub offset: i64,
    /// Its timestamp, milliseconds.
    pub timestamp: i64,
    /// The epoch of the leader that stored it.
    pub leader_epoch: i32,
}

/// Where a segment starts, and when it was last written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentStart {
    /// Its first offset, or the log's where that is inside of it.
    pub offset: i64,
    /// The greatest timestamp in it, or of its file where no record has one; milliseconds, `None` if neither is known.
    pub time_ms: Option<i64>,
}

impl Partition {
    /// The starts of all segments with visible records, oldest first. May block.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn segment_starts(&self) -> Result<Vec<SegmentStart>, ReadError> {
        let log_start = self.offsets().log_start;
        let mut starts = Vec::new();
        self.each_segment(|partition, place| {
            let interval_bytes = partition.config().index_interval_bytes;
            let measured =
                place.segment.measure(&*partition.volume, interval_bytes).map_err(|error| match error {
                    ScanError::Storage(error) => partition.unopened(&place.segment, error),
                    error => Stop::scan(&place.segment, error),
                })?;
            starts.push(SegmentStart {
                offset: place.segment.base_offset().max(log_start),
                time_ms: measured.largest_timestamp,
            });
            Ok(true)
        })?;
        Ok(starts)
    }

    /// The first record with a timestamp of at least `timestamp`, from the log start to the high watermark. May block.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Result<Option<TimestampHit>, ReadError> {
        let mut found = None;
        self.each_segment(|partition, place| {
            found = partition.first_at_or_after(place, timestamp)?;
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// The first record that carries the greatest timestamp, from the log start to the high watermark; `None` when no
    /// record has a timestamp. May block.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn max_timestamp(&self) -> Result<Option<TimestampHit>, ReadError> {
        let mut greatest = -1;
        self.each_segment(|partition, place| {
            let (file, end) = partition.open_segment(place, true)?;
            // Never less than what is visible; it may be more, by what is being committed right now.
            greatest = greatest
                .max(partition.with_index(&place.segment, &*file, end, true, |index| index.max_timestamp())?);
            Ok(true)
        })?;
        if greatest < 0 {
            return Ok(None);
        }
        match self.offset_for_timestamp(greatest)? {
            Some(hit) => Ok(Some(hit)),
            // The greatest is not visible yet, or was deleted: look at what is there.
            None => self.max_timestamp_by_scan(),
        }
    }

    /// Bytes of all visible batches, or what of it is known when the storage does not answer. May block.
    pub fn log_size_bytes(&self) -> u64 {
        let mut bytes = 0;
        let _ = self.each_segment(|partition, place| {
            bytes += match place.end {
                Some(end) => end,
                None => partition.open_segment(place, true)?.1,
            };
            Ok(true)
        });
        bytes
    }

    fn max_timestamp_by_scan(&self) -> Result<Option<TimestampHit>, ReadError> {
        let log_start = self.offsets().log_start;
        let mut greatest = -1;
        self.each_segment(|partition, place| {
            let (file, end) = partition.open_segment(place, true)?;
            let mut scanner = Scanner::new(&*file, 0, end, true);
            while let Some((position, header)) =
                scanner.next_header().map_err(|error| Stop::scan(&place.segment, error))?
            {
                let empty = header.record_count == 0 || header.last_offset() < log_start;
                if empty || header.max_timestamp <= greatest {
                    continue;
                }
                if header.base_offset >= log_start {
                    greatest = header.max_timestamp;
                    continue;
                }
                // A part of the batch was deleted: what counts is in the rest.
                each_record(place, &*file, position, &header, |offset, timestamp| {
                    greatest = if offset >= log_start { greatest.max(timestamp) } else { greatest };
                    true
                })?;
            }
            Ok(true)
        })?;
        if greatest < 0 { Ok(None) } else { self.offset_for_timestamp(greatest) }
    }

    /// Visits the segments in order until `visit` says false. Each is seen as it was at its turn.
    fn each_segment(
        &self,
        mut visit: impl FnMut(&Self, &Place) -> Result<bool, Stop>,
    ) -> Result<(), ReadError> {
        let mut next =
            Some(self.with_readable(|state| state.segments.first().map_or(0, |s| s.base_offset()))?);
        while let Some(offset) = next {
            let Some(place) = self.with_readable(|state| state.place(offset))? else { return Ok(()) };
            match visit(self, &place) {
                Ok(true) => next = place.next,
                Ok(false) => return Ok(()),
                // It was removed a moment ago: go on with the first that is left.
                Err(Stop::Removed) => {
                    next = self.with_readable(|state| {
                        state.segments.first().map(|first| first.base_offset().max(offset))
                    })?;
                }
                Err(stop) => return Err(self.noted(stop.into_error())),
            }
        }
        Ok(())
    }

    fn first_at_or_after(&self, place: &Place, timestamp: i64) -> Result<Option<TimestampHit>, Stop> {
        let (file, end) = self.open_segment(place, true)?;
        let start = self
            .with_index(&place.segment, &*file, end, true, |index| index.position_of_timestamp(timestamp))?;
        let log_start = self.offsets().log_start;
        let mut scanner = Scanner::new(&*file, start, end, true);
        let mut found = None;
        while let Some((position, header)) =
            scanner.next_header().map_err(|error| Stop::scan(&place.segment, error))?
        {
            if header.max_timestamp < timestamp || header.last_offset() < log_start {
                continue;
            }
            each_record(place, &*file, position, &header, |offset, at| {
                if at >= timestamp && offset >= log_start {
                    found = Some(TimestampHit { offset, timestamp: at, leader_epoch: header.leader_epoch });
                }
                found.is_none()
            })?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }
}

/// Calls `visit` with the offset and the timestamp of each record of a batch, until it says false.
fn each_record(
    place: &Place,
    file: &dyn VolumeFile,
    position: u64,
    header: &BatchHeader,
    mut visit: impl FnMut(i64, i64) -> bool,
) -> Result<(), Stop> {
    let damaged = |why: String| {
        let segment = place.segment.path(SegmentFile::Log);
        Stop::Error(ReadError::Damaged { segment, position, why })
    };
    let mut batch = vec![0; header.size];
    crate::volume::read_exact_at(file, &mut batch, position)
        .map_err(|error| Stop::Error(ReadError::Storage(error.into())))?;
    if !place.segment.is_sound(position, position + batch.len() as u64) && batch_crc(&batch) != header.crc {
        return Err(damaged("the checksum is wrong".to_owned()));
    }
    let stream = decompress(header.codec(), &batch[BATCH_OVERHEAD..])
        .map_err(|error| damaged(error.to_string()))?
        .ok_or_else(|| damaged(format!("codec {:?}", header.codec())))?;
    for_each_head(stream, header.record_count, |head| {
        let offset = header.base_offset + i64::from(head.offset_delta);
        visit(offset, header.record_timestamp(head.timestamp_delta))
    })
    .map_err(|error| damaged(error.to_string()))
}
