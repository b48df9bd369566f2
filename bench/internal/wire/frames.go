// Package wire measures informers from the socket on. A small server sends encoded pods over the
// loopback interface to a child process. Each measurement has its own child process, which runs an
// informer of lw or of client-go and reports what it used.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/bench/internal/pods"
)

// A Format is an encoding of Kubernetes objects.
type Format string

const (
	JSON     Format = "application/json"
	Protobuf Format = "application/vnd.kubernetes.protobuf"
)

// A frame is an encoded watch event. Its resource version can be overwritten in place, because all
// versions have the same number of digits.
type frame struct {
	bytes     []byte
	at        int // where the digits of the resource version begin
	typeStart int // where the event's type begins
}

// A collection has the pods of package pods in one encoding.
type collection struct {
	format    Format
	items     [][]byte // the pods as items of a list
	frames    []frame  // the pods as ADDED events
	restarted []frame  // the same with another status
}

func newCollection(format Format, n int) (*collection, error) {
	c := &collection{format: format}
	for i := range n {
		item, added, err := encode(format, pods.Full(i))
		if err != nil {
			return nil, fmt.Errorf("pod %d: %w", i, err)
		}
		_, restarted, err := encode(format, pods.Restarted(i))
		if err != nil {
			return nil, fmt.Errorf("pod %d: %w", i, err)
		}
		c.items, c.frames, c.restarted = append(c.items, item), append(c.frames, added), append(c.restarted, restarted)
	}
	return c, nil
}

// encode returns pod as an item of a list and as an ADDED event.
func encode(format Format, pod *corev1.Pod) (item []byte, added frame, err error) {
	var event []byte
	if format == JSON {
		item, event, err = encodeJSON(pod)
	} else {
		item, event, err = encodeProtobuf(pod)
	}
	if err != nil {
		return nil, frame{}, err
	}
	at := bytes.Index(event, []byte(pod.ResourceVersion))
	if at < 0 || at != bytes.LastIndex(event, []byte(pod.ResourceVersion)) {
		return nil, frame{}, errors.New("its resource version does not stand once in its event")
	}
	return item, frame{bytes: event, at: at, typeStart: bytes.Index(event, []byte(watch.Added))}, nil
}

// modified returns the MODIFIED event of pod i, with the status after a restart or with the one
// before, and with the version of write number write. It is the ADDED event with another type and
// version, so that nothing is encoded while events are measured.
func (c *collection) modified(i int, restarted bool, write int) []byte {
	f := c.frames[i]
	if restarted {
		f = c.restarted[i]
	}
	version := pods.Version(write)
	b := make([]byte, 0, len(f.bytes)+len(watch.Modified))
	if c.format == JSON {
		b = append(b, f.bytes[:f.typeStart]...)
		b = append(b, watch.Modified...)
		b = append(b, f.bytes[f.typeStart+len(watch.Added):]...)
		copy(b[f.at+len(watch.Modified)-len(watch.Added):], version)
		return b
	}
	// A protobuf frame is the length of the message, in four bytes, and the message. The message
	// begins with field 1, the type: a tag (0x0a), the length of the text, the text.
	rest := f.bytes[f.typeStart+len(watch.Added):]
	message := append([]byte{0x0a, byte(len(watch.Modified))}, watch.Modified...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(message)+len(rest)))
	b = append(append(b, message...), rest...)
	copy(b[f.at+len(watch.Modified)-len(watch.Added):], version)
	return b
}

// encodeJSON encodes pod as a server does: an item of a list has no kind and apiVersion, the object
// of an event has both.
func encodeJSON(pod *corev1.Pod) (item, event []byte, err error) {
	if item, err = json.Marshal(pod); err != nil {
		return nil, nil, err
	}
	event = fmt.Appendf(nil, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",%s}`+"\n", item[1:])
	return item, event, nil
}

func encodeProtobuf(pod *corev1.Pod) (item, event []byte, err error) {
	if item, err = pod.Marshal(); err != nil {
		return nil, nil, err
	}
	event, err = protobufEvent(watch.Added, pod)
	return item, event, err
}

func protobufEvent(typ watch.EventType, pod *corev1.Pod) ([]byte, error) {
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	object, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), pod)
	if err != nil {
		return nil, err
	}
	message, err := (&metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), nil
}

// bookmark returns the bookmark that ends the initial events of a streamed list.
func (c *collection) bookmark() ([]byte, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: c.version(), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	if c.format == Protobuf {
		return protobufEvent(watch.Bookmark, pod)
	}
	object, err := json.Marshal(pod)
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1",%s}`+"\n", object[1:]), err
}

// version returns the collection's resource version, which is that of its last pod.
func (c *collection) version() string { return pods.Version(len(c.items) - 1) }

// list returns a list response with the pods from first up to, but not including, last. next is its
// continue token.
//
// The items are encoded already, so they are put together by hand. In protobuf a PodList is its
// metadata followed by field 2, length-delimited, once for each item. The response is that list
// within a runtime.Unknown, which names the kind, after the four bytes "k8s\x00".
func (c *collection) list(first, last int, next string) ([]byte, error) {
	meta := metav1.ListMeta{ResourceVersion: c.version(), Continue: next}
	var b bytes.Buffer
	if c.format == JSON {
		m, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[`, m)
		b.Write(bytes.Join(c.items[first:last], []byte(",")))
		b.WriteString("]}\n")
		return b.Bytes(), nil
	}
	raw, err := (&corev1.PodList{ListMeta: meta}).Marshal()
	if err != nil {
		return nil, err
	}
	for _, item := range c.items[first:last] {
		raw = append(raw, 0x12) // items: field 2, length-delimited
		raw = binary.AppendUvarint(raw, uint64(len(item)))
		raw = append(raw, item...)
	}
	unknown, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Raw: raw}).Marshal()
	if err != nil {
		return nil, err
	}
	b.WriteString("k8s\x00")
	b.Write(unknown)
	return b.Bytes(), nil
}
