package serve

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/wire"
)

// A format is how the objects of an answer look. Two formats are equal if they are the same.
type format struct {
	codec   *wire.Codec
	include metav1.IncludeObjectPolicy // what the rows of a table have beside the cells
}

// codecs are the codecs of a collection, one for each format.
type codecs [wire.Formats]*wire.Codec

func newCodecs(kind metav1.TypeMeta, columns []metav1.TableColumnDefinition) (all codecs) {
	for _, e := range []wire.Encoding{wire.JSON, wire.Protobuf, wire.CBOR} {
		for _, s := range []wire.Shape{wire.Full, wire.Partial, wire.Table} {
			f := wire.Format{Encoding: e, Shape: s}
			all[f.Index()] = wire.NewCodec(f, kind, columns)
		}
	}
	return all
}
