package serve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/wire"
)

// Tables are what kubectl shows: a server chooses the columns, and makes the cells. See
// https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables.

// tableRow returns the row of an item. include says what the row has beside the cells.
func (enc *encoder) tableRow(i *item, include metav1.IncludeObjectPolicy, now time.Time) (row []byte, err error) {
	defer recovered(&err)
	metadata, err := enc.body(i, wire.Format{Shape: wire.Partial})
	if err != nil {
		return nil, err
	}
	object := metadata
	switch include {
	case metav1.IncludeNone:
		object = []byte("null")
	case metav1.IncludeObject:
		if object, err = enc.body(i, wire.Format{}); err != nil {
			return nil, err
		}
	}
	var between []any
	for _, c := range enc.resource.columns {
		between = append(between, c.value(i.obj))
	}
	return wire.TableRow(metadata, object, between, now)
}
