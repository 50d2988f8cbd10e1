package agent

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
)

const lineBytesMax = 32 << 20

// Header is a header of a record; a nil value is a null one.
type Header struct {
	Name  string
	Value []byte
}

// Record is a line of the record file (see lib/records.py); nil is null, and a timestamp of -1 is none.
type Record struct {
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// ReadRecords hands the records of a file to each, in order.
func ReadRecords(path string, each func(Record) error) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 1<<16), lineBytesMax)
	count := 0
	for lines.Scan() {
		record, err := parse(lines.Text())
		if err != nil {
			return count, err
		}
		if err := each(record); err != nil {
			return count, err
		}
		count++
	}
	return count, lines.Err()
}

func parse(line string) (Record, error) {
	fields := strings.Split(line, "\t")
	if len(fields) < 3 || len(fields)%2 == 0 {
		return Record{}, fmt.Errorf("a record line with %d fields", len(fields))
	}
	timestamp, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return Record{}, err
	}
	parts := make([][]byte, len(fields)-1)
	for i, field := range fields[1:] {
		if parts[i], err = parseField(field); err != nil {
			return Record{}, err
		}
	}
	record := Record{Timestamp: timestamp, Key: parts[0], Value: parts[1]}
	for i := 2; i < len(parts); i += 2 {
		record.Headers = append(record.Headers, Header{string(parts[i]), parts[i+1]})
	}
	return record, nil
}

func parseField(field string) ([]byte, error) {
	if field == "-" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(field, "+"))
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// Writer writes a record file.
type Writer struct {
	file  *os.File
	lines *bufio.Writer
	// Count is how many records were written.
	Count int
}

// NewWriter makes a record file.
func NewWriter(path string) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Writer{file: file, lines: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Write appends a record.
func (w *Writer) Write(record Record) error {
	fields := []string{strconv.FormatInt(record.Timestamp, 10), field(record.Key), field(record.Value)}
	for _, header := range record.Headers {
		fields = append(fields, field([]byte(header.Name)), field(header.Value))
	}
	w.Count++
	_, err := w.lines.WriteString(strings.Join(fields, "\t") + "\n")
	return err
}

// Close flushes the file.
func (w *Writer) Close() error {
	if err := w.lines.Flush(); err != nil {
		return err
	}
	return w.file.Close()
}

func field(data []byte) string {
	if data == nil {
		return "-"
	}
	return "+" + base64.StdEncoding.EncodeToString(data)
}
