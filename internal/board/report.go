// Package board is what lw.Board shows: the Report that its JSON is, and the page that is made of a
// Report.
package board

import (
	"encoding/json"
	"time"
)

// A Report is everything that a board shows. Its JSON is a contract: a field keeps its name and its
// meaning, and others may come. A slice is never null, and a time that has not come is left out.
type Report struct {
	Time      time.Time  `json:"time"`
	Process   Process    `json:"process"`
	Informers []Informer `json:"informers"` // sorted by name
	Graphs    []Graph    `json:"graphs"`    // sorted by name
	// Controllers are the queues that know why their keys run, sorted by name.
	Controllers []Controller `json:"controllers"`
}

// JSON returns the report as JSON, with an indentation if indent is true.
func (r *Report) JSON(indent bool) ([]byte, error) {
	if indent {
		return json.MarshalIndent(r, "", "  ")
	}
	return json.Marshal(r)
}

// An Informer is an informer or a reflector.
type Informer struct {
	Name            string    `json:"name"`
	Kind            Kind      `json:"kind"`
	State           State     `json:"state"`
	Phase           string    `json:"phase"`
	Unserved        string    `json:"unserved,omitempty"` // why nobody serves the kind
	Synced          bool      `json:"synced"`
	ResourceVersion string    `json:"resource_version"`
	Mode            string    `json:"mode"`
	Decoder         string    `json:"decoder,omitempty"` // of the objects, if that is known
	Objects         *int      `json:"objects,omitempty"` // a reflector does not know
	Indexes         []int     `json:"indexes,omitempty"` // values of each, or objects of a sorted one
	Pending         int       `json:"pending"`
	LastEvent       time.Time `json:"last_event,omitzero"`
	LastList        time.Time `json:"last_list,omitzero"` // when the last whole list became the content
	ListDue         time.Time `json:"list_due,omitzero"`  // since when another one is needed, if it is
	Failure         *Failure  `json:"failure,omitempty"`
	SetAside        Faults    `json:"set_aside"`
	Handlers        []Handler `json:"handlers"`
	Behind          []Delay   `json:"behind,omitempty"`
	Requests        Requests  `json:"requests"`
	Events          uint64    `json:"events"`
	EventsBy        Counts    `json:"events_by_type"`
	Relists         uint64    `json:"relists"`
	ListsBy         Counts    `json:"lists_by_cause"` // also of the first one
	Undecoded       uint64    `json:"undecoded"`
	BackoffSeconds  Seconds   `json:"backoff_seconds"`
	Epochs          int       `json:"epochs"`
	Packed          *Packed   `json:"packed,omitempty"` // if a limit bounds the objects
}

// Packed is what the objects of an informer have of a limit on packed bytes.
type Packed struct {
	Limit    int64  `json:"limit_bytes"` // which other informers may share
	Bytes    int64  `json:"bytes"`       // of the objects that may be let go
	LetGo    int64  `json:"let_go"`      // objects that have their metadata alone
	Requests uint64 `json:"requests"`    // for objects that were let go
	Gone     uint64 `json:"gone"`        // how many of these had no object any more
	Failed   uint64 `json:"failed"`      // reads that have returned metadata alone
	// Namespaces are the first MaxShares, with the largest first, of so many.
	Namespaces      []Share `json:"namespaces"`
	TotalNamespaces int     `json:"total_namespaces"`
}

// MaxShares is how many namespaces Packed has.
const MaxShares = 10

// Share is what the objects of one namespace have.
type Share struct {
	Namespace string `json:"namespace,omitempty"`
	Objects   int    `json:"objects"`
	Bytes     int64  `json:"bytes"`
	LetGo     int    `json:"let_go"`
}

// Delay is how late the server's writes came into the store, in the last ten minutes, as it was
// measured in one way.
type Delay struct {
	By    string   `json:"by"` // "told", "asked" or "written", as in lw.Status
	Half  *Seconds `json:"p50_seconds,omitempty"`
	Most  *Seconds `json:"p99_seconds,omitempty"`
	Count uint64   `json:"count"` // from the beginning on
}

// Counts says how many things there were of each sort, leaving out those of which there were none.
type Counts map[string]uint64

// Kind is what follows a collection.
type Kind string

const (
	KindInformer  Kind = "informer"
	KindReflector Kind = "reflector"
)

// A Failure is one that lasts.
type Failure struct {
	InARow     int       `json:"in_a_row"`
	Since      time.Time `json:"since"`
	ForSeconds Seconds   `json:"for_seconds"`
	Error      string    `json:"error"` // the last one
}

// Requests counts those to the server.
type Requests struct {
	Lists   uint64  `json:"lists"`
	Probes  uint64  `json:"probes"`
	Watches uint64  `json:"watches"`
	Streams uint64  `json:"streams"` // included in Watches
	Failed  uint64  `json:"failed"`
	Ended   []Ended `json:"ended"`
	// Seconds has how long the requests of an operation took that have ended.
	Seconds map[string]Seconds `json:"seconds"`
}

// Ended counts the requests of one operation that have ended with one HTTP status.
type Ended struct {
	Op   string `json:"op"`
	Code int    `json:"code"` // 0: there was no status
	N    uint64 `json:"count"`
}

// Faults are objects with which something is wrong: all of them counted, the first ones named.
type Faults struct {
	Total   int     `json:"total"`
	Objects []Fault `json:"objects"` // the first MaxFaults, sorted by namespace and name
}

// MaxFaults is how many objects Faults names. A program finds the others in a Status.
const MaxFaults = 100

// A Fault is what is wrong with an object.
type Fault struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Error     string `json:"error"`
	// Cause is Error without what stands beside it on the page: the names of the informer and the
	// object.
	Cause string `json:"-"`
}

// A Graph is a graph of derived collections.
type Graph struct {
	Name        string            `json:"name"`
	State       State             `json:"state"`
	Synced      bool              `json:"synced"`
	Steps       uint64            `json:"steps"`
	BusySeconds Seconds           `json:"busy_seconds"`
	Pending     int               `json:"pending"`
	StepBegan   time.Time         `json:"step_began,omitzero"` // of the step that the graph is in
	Call        string            `json:"call,omitempty"`      // of a function, that this step is in
	Versions    map[string]string `json:"versions"`            // of the informers, as they are shown
	Collections []Collection      `json:"collections"`
}

// A Collection is a derived one.
type Collection struct {
	Name      string    `json:"name"`
	State     State     `json:"state"`
	From      []string  `json:"from"`
	Synced    bool      `json:"synced"`
	Objects   int       `json:"objects"`
	Indexes   []int     `json:"indexes,omitempty"` // as in Informer
	Computed  uint64    `json:"computed"`
	Unchanged uint64    `json:"unchanged"`
	Pending   int       `json:"pending"`
	Conflicts Faults    `json:"conflicts"`
	SetAside  Faults    `json:"set_aside"`
	Handlers  []Handler `json:"handlers"`
}

// A Controller is a work queue with what its keys run for.
type Controller struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Runs    uint64 `json:"runs"`
	Waiting int    `json:"waiting"`
	Running int    `json:"running"`
	Reasons []Why  `json:"reasons"` // the most frequent first
	Loops   []Loop `json:"loops"`   // the longest first
}

// A Why is a reason for which keys run.
type Why struct {
	Collection string   `json:"collection,omitempty"`
	Type       string   `json:"type,omitempty"`    // of the net change; none if what has changed was undone
	Cause      string   `json:"cause,omitempty"`   // as of a delta
	Requeue    string   `json:"requeue,omitempty"` // why keys run although nothing has changed
	Runs       uint64   `json:"runs"`
	Fields     []string `json:"fields"` // that differ most often, in a sample
}

// A Loop is a key that runs again and again.
type Loop struct {
	Key        string    `json:"key"`
	Kind       LoopKind  `json:"kind"`
	Collection string    `json:"collection"`
	Namespace  string    `json:"namespace,omitempty"` // of the object that is written
	Name       string    `json:"name"`
	Field      string    `json:"field,omitempty"`
	Managers   []string  `json:"managers"` // of the field, where they are known
	Rounds     int       `json:"rounds"`
	Since      time.Time `json:"since"`
	Last       time.Time `json:"last"`
}

// LoopKind is what keeps a loop going.
type LoopKind string

const (
	LoopAnswers LoopKind = "answers" // each run writes what the next one is for
	LoopUndo    LoopKind = "undo"    // two writers undo each other
)

// A Handler is one of a collection.
type Handler struct {
	Name    string `json:"name"`
	Synced  bool   `json:"synced"`
	Pending int    `json:"pending"`
	Calls   Calls  `json:"calls"`
	Folded  uint64 `json:"folded"`
	Panics  uint64 `json:"panics"`
	Lag     Lag    `json:"lag"`
}

// Calls counts the calls of a handler's functions.
type Calls struct {
	Added   uint64 `json:"added"`
	Updated uint64 `json:"updated"`
	Deleted uint64 `json:"deleted"`
}

// Lag is how long changes took from the store to the end of the handler's call. Some are timed.
type Lag struct {
	Count      uint64   `json:"count"` // of those that were timed
	SumSeconds Seconds  `json:"sum_seconds"`
	Buckets    []Bucket `json:"buckets"` // cumulative, and ascending
}

// A Bucket counts the changes that took Seconds or less.
type Bucket struct {
	Seconds Seconds `json:"le_seconds"`
	Count   uint64  `json:"count"`
}

// within returns the least bound within which the share of the changes is. ok is false if there is
// none, because more of them took longer than the last bound.
func (l Lag) within(share float64) (bound Seconds, ok bool) {
	for _, b := range l.Buckets {
		if float64(b.Count) >= share*float64(l.Count) {
			return b.Seconds, true
		}
	}
	return 0, false
}

// Seconds is a duration. In JSON it is a number of seconds, exact to the microsecond.
type Seconds time.Duration

// MarshalJSON writes the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(s).Microseconds()) / 1e6)
}
