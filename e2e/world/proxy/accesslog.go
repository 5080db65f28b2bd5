package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
)

// failedHTTP lets the requests through that did not end with an untroubled answer.
func failedHTTP() object {
	return object{"or_filter": object{"filters": []object{
		{"response_flag_filter": object{}},
		{"status_code_filter": object{"comparison": object{
			"op": "GE", "value": object{"default_value": 400, "runtime_key": "world.access_log"},
		}}},
	}}}
}

// accessLog keeps what the filter lets through, by an id; without a filter all.
func (c Config) accessLog(id string, filter object) object {
	log := object{
		"name": "envoy.access_loggers.file",
		"typed_config": object{
			"@type": typePrefix + "extensions.access_loggers.file.v3.FileAccessLog",
			"path":  c.AccessLog(),
			"log_format": object{"json_format": object{
				"id":       id,
				"flags":    "%RESPONSE_FLAGS%",
				"details":  "%RESPONSE_CODE_DETAILS%",
				"upstream": "%UPSTREAM_HOST%",
			}},
		},
	}
	if filter != nil {
		log["filter"] = filter
	}
	return log
}

// PortID begins the id of a TCP session, which the client's port ends. (A number alone would not be logged as a text.)
const PortID = "port "

// LogEntry is one line of the access log.
type LogEntry struct {
	ID       string `json:"id"`
	Flags    string `json:"flags"`
	Details  string `json:"details"`
	Upstream string `json:"upstream"`
}

// ReadAccessLog returns the entries by request id. A log that does not exist has none.
func (c Config) ReadAccessLog() (map[string]LogEntry, error) {
	file, err := os.Open(c.AccessLog())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	entries := make(map[string]LogEntry)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e LogEntry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		// A refused TCP client's port is free at once, and a later session may have it: that one ended without trouble.
		if before, used := entries[e.ID]; used && before.troubled() && !e.troubled() {
			continue
		}
		entries[e.ID] = e
	}
	return entries, lines.Err()
}

// troubled tells whether Envoy flagged the request; "-" is its word for no flag.
func (e LogEntry) troubled() bool { return e.Flags != "" && e.Flags != "-" }
