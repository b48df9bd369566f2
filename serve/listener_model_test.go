package serve_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// TestListenerModel drives watches over real sockets: random writes, while clients come, stall,
// read a few bytes at a time, send what they must not, and go. Each client is judged by what was
// written: it was told of every change that it asked for, once, in order, as it was; and if not, it
// was told so. Nothing is waited for by time.
func TestListenerModel(t *testing.T) {
	fewer(t, 12)
	for _, secure := range []bool{false, true} {
		for _, relays := range []bool{false, true} {
			t.Run(fmt.Sprintf("TLS %t/relay %t", secure, relays), func(t *testing.T) {
				t.Parallel() // much of the time they wait
				rapid.Check(t, func(t *rapid.T) {
					w := newListenerWorld(t, secure, relays)
					defer w.stop()
					t.Repeat(map[string]func(*rapid.T){
						"write": w.write, "burst": w.burst, "transaction": w.transaction,
						"open": w.open, "open another": w.open,
						"stall": w.stall, "trickle": w.trickle, "go on": w.goOn,
						"leave": w.leave, "misbehave": w.misbehave,
						"settle": w.settle, "forget": w.forget, "unseen": w.unseen,
					})
					w.finish(t)
				})
			})
		}
	}
}

// record adds what was written to the truth.
func (w *listenerWorld) record(version string, changes ...modelChange) {
	w.version, _ = strconv.ParseUint(version, 10, 64)
	for _, ch := range changes {
		ch.version = w.version
		w.changes = append(w.changes, ch)
	}
}

// next returns the next object of a key.
func (w *listenerWorld) next(t *rapid.T, key lw.Key) *Widget {
	obj := newWidget(key, rapid.IntRange(0, 3).Draw(t, "size"))
	w.writes++
	obj.Labels["n"] = strconv.Itoa(w.writes)
	obj.Labels["long"] = strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 100, 5000, 200_000}).Draw(t, "long"))
	return obj
}

var modelKeys = []lw.Key{{Namespace: "n", Name: "a"}, {Namespace: "n", Name: "b"}, {Namespace: "n", Name: "c"},
	{Namespace: "o", Name: "a"}, {Namespace: "o", Name: "z"}}

func (w *listenerWorld) write(t *rapid.T) {
	key := rapid.SampledFrom(modelKeys).Draw(t, "key")
	_, gone := w.m.Get(t.Context(), key)
	if gone == nil && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
		w.remove(t, key, false)
		return
	}
	w.put(t, w.next(t, key), false)
}

// put writes an object.
func (w *listenerWorld) put(t *rapid.T, obj *Widget, unseen bool) {
	old, gone := w.m.Get(t.Context(), lw.KeyOf(obj))
	write := w.m.Create
	if gone == nil {
		write = w.m.Update
	}
	obj, err := write(t.Context(), obj)
	noErr(t, err)
	w.record(obj.ResourceVersion, modelChange{old: old, new: obj, unseen: unseen})
}

// remove deletes an object.
func (w *listenerWorld) remove(t *rapid.T, key lw.Key, unseen bool) {
	old, _ := w.m.Get(t.Context(), key)
	version, err := w.m.Delete(t.Context(), key, "")
	noErr(t, err)
	w.record(version, modelChange{old: old, unseen: unseen})
}

func (w *listenerWorld) burst(t *rapid.T) {
	for range rapid.IntRange(5, 60).Draw(t, "writes") {
		w.write(t)
	}
}

// transaction writes several objects at one version.
func (w *listenerWorld) transaction(t *rapid.T) {
	var puts []*Widget
	var gone []lw.Key
	var written, deleted []modelChange
	for _, key := range rapid.Permutation(modelKeys).Draw(t, "keys")[:rapid.IntRange(1, w.maxTxn).Draw(t, "writes")] {
		old, err := w.m.Get(t.Context(), key)
		if err == nil && rapid.Bool().Draw(t, "delete") {
			gone = append(gone, key)
			deleted = append(deleted, modelChange{old: old})
			continue
		}
		puts = append(puts, w.next(t, key))
		written = append(written, modelChange{old: old})
	}
	version, err := w.m.Transact(t.Context(), puts, gone...)
	noErr(t, err)
	for i, obj := range puts {
		written[i].new, _ = w.m.Get(t.Context(), lw.KeyOf(obj))
	}
	w.record(version, append(written, deleted...)...) // what is put comes before what is gone
}

// open opens a watch.
func (w *listenerWorld) open(t *rapid.T) {
	if len(w.clients) >= 12 {
		t.Skip("enough clients")
	}
	c := &modelClient{
		form:   rapid.SampledFrom(modelForms).Draw(t, "encoding"),
		sees:   rapid.SampledFrom(modelSelectors).Draw(t, "selector"),
		opened: len(w.breaks),
	}
	query := "?watch=1" + c.sees.query
	status := w.h.Status()[0]
	switch how := rapid.SampledFrom([]string{"from", "from", "ahead", "any", "newest", "stream"}).Draw(t, "begin"); how {
	case "from":
		c.version = rapid.Uint64Range(max(1, w.version-min(w.version, 100)), w.version).Draw(t, "version")
		query += fmt.Sprintf("&resourceVersion=%d", c.version)
	case "ahead":
		c.version = w.version + rapid.Uint64Range(1, 5).Draw(t, "ahead")
		query += fmt.Sprintf("&resourceVersion=%d", c.version)
	default:
		c.initial, c.version = true, status.ResourceVersion
		switch how {
		case "any":
			query += "&resourceVersion=0"
		case "stream":
			query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
			c.endMark = true
		}
		if how != "any" && w.valve == nil {
			c.version = w.version
		}
	}
	if c.allows = rapid.Bool().Draw(t, "bookmarks"); c.allows {
		query += "&allowWatchBookmarks=true"
	}
	c.endMark = c.endMark && c.allows
	if c.timed = rapid.IntRange(0, 9).Draw(t, "timed") == 0; c.timed {
		query += "&timeoutSeconds=1"
	}
	w.names++
	c.name = fmt.Sprintf("client %d: %s%s %s", w.names, c.sees.path, query, c.form.accept)
	c.gate, c.conn = w.dial(t)
	c.reader = bufio.NewReaderSize(c.conn, 4<<10)
	w.clients = append(w.clients, c)
	// The connection may have been used before.
	before := rapid.SampledFrom([]string{"", "", "", path + "?resourceVersion=0", "/none",
		path + "?watch=1&labelSelector=%21%21"}).Draw(t, "request before")
	if before != "" && !w.impatient {
		request(t, c.conn, before, "application/json")
		resp, err := http.ReadResponse(c.reader, nil)
		noErr(t, err)
		noErr(t, second(io.Copy(io.Discard, resp.Body)))
		_ = resp.Body.Close()
	}
	c.gate.set(rapid.IntRange(0, 4).Draw(t, "stalled at once") == 0, 0)
	request(t, c.conn, c.sees.path+query, c.form.accept)
	if rapid.IntRange(0, 9).Draw(t, "pipelined") == 0 { // it is answered on another connection, or never
		_, _ = io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		c.sent = true
	}
	go c.read()
}

// client draws one that has not gone.
func (w *listenerWorld) client(t *rapid.T) *modelClient {
	if len(w.clients) == 0 {
		t.Skip("no client")
	}
	return w.clients[rapid.IntRange(0, len(w.clients)-1).Draw(t, "client")]
}

func (w *listenerWorld) stall(t *rapid.T) { w.client(t).gate.set(true, 0) }

func (w *listenerWorld) trickle(t *rapid.T) {
	w.client(t).gate.set(false, rapid.IntRange(1, 200).Draw(t, "bytes"))
}

func (w *listenerWorld) goOn(t *rapid.T) { w.client(t).gate.set(false, 0) }

// leave makes a client go away, in one of the ways in which clients do.
func (w *listenerWorld) leave(t *rapid.T) {
	c := w.client(t)
	c.ignored = true
	if rapid.Bool().Draw(t, "reset") {
		_ = c.gate.SetLinger(0)
	}
	_ = c.gate.Close()
	w.drop(t, c)
}

// misbehave makes a client send more, which changes nothing, or say that it sends nothing more.
func (w *listenerWorld) misbehave(t *rapid.T) {
	c := w.client(t)
	if !rapid.Bool().Draw(t, "half close") {
		c.sent = true
		_, _ = io.WriteString(c.conn, rapid.SampledFrom([]string{"\r\n", "GET / HTTP/1.1\r\n"}).Draw(t, "more"))
		return
	}
	c.ignored = true
	if secure, ok := c.conn.(*tls.Conn); ok {
		_ = secure.CloseWrite()
	} else {
		_ = c.gate.CloseWrite()
	}
	c.gate.set(false, 0)
	w.drop(t, c) // the server must end it
}

// wait waits for the end of the answer to a client.
func (c *modelClient) wait(t *rapid.T) {
	rig.Met(t, patience, c.name+" has not ended", func() bool { _, _, ended, _ := c.state(); return ended })
}

// drop waits for the end of a client, and judges it.
func (w *listenerWorld) drop(t *rapid.T, c *modelClient) {
	c.wait(t)
	_ = c.conn.Close()
	w.judgeOne(t, c)
	w.clients = slices.DeleteFunc(w.clients, func(other *modelClient) bool { return other == c })
}

// settle waits until all clients were told of everything, and drops those that have ended.
func (w *listenerWorld) settle(t *rapid.T) {
	w.reached(t)
	for _, c := range w.clients {
		c.gate.set(false, 0)
	}
	for _, c := range slices.Clone(w.clients) {
		judged := -1 // when it had been told of so many
		rig.Until(t, patience, func() string {
			code, all, ended, _ := c.state()
			// One that is to end because of a break may take its time.
			if code == 200 && len(w.breaks) > c.opened {
				return ""
			}
			if n := len(all); judged != n || ended || n == 0 {
				judged = n
				if w.judgeOne(t, c) {
					return ""
				}
			}
			return fmt.Sprintf("%s, from %d, code %d, was told of %d only, at %d:\n%s", c.name, c.version, code, len(all),
				w.version, texts(all))
		})
		if _, _, ended, _ := c.state(); ended {
			w.drop(t, c)
		}
	}
}

// forget makes the server lose what it has not told: a Memory forgets its past, and the informer of
// a relay finds in a list that it has missed changes.
func (w *listenerWorld) forget(t *rapid.T) {
	if w.relists++; w.relists > 2 {
		t.Skip("enough of these")
	}
	w.reached(t)
	if w.valve == nil {
		if rapid.Bool().Draw(t, "while there is news") {
			w.burst(t)
		}
		w.breakNow()
		w.m.Compact()
		w.reached(t) // by a list, if its informer was behind
		return
	}
	w.valve.shut()
	var puts []*Widget
	for range rapid.IntRange(1, 5).Draw(t, "missed") {
		puts = append(puts, w.next(t, lw.Key{Namespace: "n", Name: "b"}))
	}
	for _, obj := range puts {
		w.put(t, obj, false)
	}
	w.breakNow()
	w.valve.expire()
	w.reached(t)
}

// unseen makes the informer of a relay miss an object that comes and goes.
func (w *listenerWorld) unseen(t *rapid.T) {
	if w.valve == nil {
		t.Skip("there is no informer")
	}
	if w.relists++; w.relists > 2 {
		t.Skip("enough of these")
	}
	w.reached(t)
	from := w.version
	w.valve.shut()
	for range rapid.IntRange(1, 3).Draw(t, "missed") {
		w.put(t, w.next(t, name("brief")), true)
		w.remove(t, name("brief"), true)
	}
	w.gaps = append(w.gaps, [2]uint64{from, w.version})
	w.valve.expire()
	w.reached(t)
}

// finish ends the world in one of its ways, and judges all clients.
func (w *listenerWorld) finish(t *rapid.T) {
	how := rapid.SampledFrom([]string{"leave", "settle and leave", "Close", "context", "context"}).Draw(t, "end")
	w.reached(t)
	switch how {
	case "settle and leave":
		w.settle(t)
		fallthrough
	case "leave":
		for len(w.clients) > 0 {
			w.leave(t)
		}
		w.vacant(t)
		if w.impatient {
			break
		}
		// What is counted of them for the limits is nothing, too.
		rig.Until(t, patience, func() string {
			w.open(t)
			c := w.clients[len(w.clients)-1]
			c.gate.set(false, 0)
			rig.Met(t, patience, c.name+" has no answer", func() bool {
				code, _, ended, _ := c.state()
				return code != 0 || ended
			})
			code, _, _, _ := c.state()
			w.clients = nil
			_ = c.gate.Close()
			if code == 429 {
				return fmt.Sprintf("the answer is %d", code)
			}
			return ""
		})
		return
	case "Close":
		w.closed = true
		closed := make(chan error, 1)
		go func() { closed <- w.h.Close() }()
		w.endAll(t, true)
		noErr(t, <-closed)
	case "context":
		w.closed = true
		w.end()
		w.endAll(t, false)
	}
	for _, c := range w.clients {
		_ = c.conn.Close()
	}
}

// endAll waits for the end of all watches of a server that ends.
func (w *listenerWorld) endAll(t *rapid.T, slowly bool) {
	for _, c := range w.clients {
		c.gate.set(false, 0)
	}
	for _, c := range w.clients {
		c.wait(t)
		w.judgeOne(t, c)
		// Its time was not over, and it was not cut off: it was told of everything.
		code, all, _, err := c.state()
		if c.ignored || c.timed || w.timed || err != nil || code != 200 {
			continue
		}
		if !w.complete(c, all) {
			t.Fatalf("%s has ended before it was told of everything:\n%s", c.name, texts(all))
		}
		expired := len(all) > 0 && all[len(all)-1].typ == "ERROR"
		if slowly && c.allows && !expired && c.version <= w.version && (len(all) == 0 || all[len(all)-1].typ != "BOOKMARK" ||
			all[len(all)-1].version != w.version) {
			t.Fatalf("%s has ended without a bookmark at %d:\n%s", c.name, w.version, texts(all))
		}
		if c.broken && !expired && w.valve != nil {
			t.Fatalf("%s has gone on after a break:\n%s", c.name, texts(all))
		}
	}
}

// breakNow notes a break. A request that is still on its way may be answered after it.
func (w *listenerWorld) breakNow() {
	w.breaks = append(w.breaks, w.version)
	for _, c := range w.clients {
		if code, _, _, _ := c.state(); code != 0 {
			c.broken = true
		}
	}
}
