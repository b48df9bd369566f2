package servers_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestLink holds a link amid what its server says.
func TestLink(t *testing.T) {
	server := rig.Must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = server.Close() })
	link := rig.Must[*servers.Link](t)((&servers.Server{EtcdURL: "http://" + server.Addr().String()}).NewLink())
	client := rig.Must[net.Conn](t)(net.Dial("tcp", link.URL[len("http://"):]))
	conn := rig.Must[net.Conn](t)(server.Accept())
	in, asked := bufio.NewReader(client), bufio.NewReader(conn)
	say := func(text string) { fmt.Fprintln(conn, text) }
	heard := func() string { return rig.Must[string](t)(in.ReadString('\n')) }

	say("one")
	if got := heard(); got != "one\n" {
		t.Errorf("%q, want one", got)
	}
	link.Hold()
	say("two")
	rig.OK(t, client.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	if got, err := in.ReadString('\n'); err == nil {
		t.Errorf("%q came through a link that is held", got)
	}
	fmt.Fprintln(client, "there?")
	if got := rig.Must[string](t)(asked.ReadString('\n')); got != "there?\n" {
		t.Errorf("%q, want there?", got)
	}
	rig.OK(t, client.SetReadDeadline(time.Time{}))
	link.Release()
	if got := heard(); got != "two\n" {
		t.Errorf("%q, want two", got)
	}

	link.Hold()
	say("three")
	link.Close()
	if got, err := in.ReadString('\n'); err == nil && got != "three\n" {
		t.Errorf("%q through a link that is closed", got)
	}
	if _, err := net.Dial("tcp", link.URL[len("http://"):]); err == nil {
		t.Error("a link that is closed takes a connection")
	}
}
