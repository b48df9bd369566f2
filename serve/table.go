package serve

import (
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

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
	cells := []any{i.key().Name}
	for _, c := range enc.resource.columns {
		cells = append(cells, c.value(i.obj))
	}
	cells = append(cells, age(metadata, now))
	row, err = json.Marshal(struct {
		Cells []any `json:"cells"`
	}{cells})
	if err != nil {
		return nil, err
	}
	return concat(row[:len(row)-1], []byte(`,"object":`), object, []byte("}")), nil
}

// age returns how old an object is, as kubectl shows it.
func age(object []byte, now time.Time) string {
	var meta struct {
		Metadata struct{ CreationTimestamp metav1.Time }
	}
	if json.Unmarshal(object, &meta) != nil || meta.Metadata.CreationTimestamp.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(meta.Metadata.CreationTimestamp.Time))
}

// includeObject reads the parameter includeObject of a request for a table.
func includeObject(value string) (metav1.IncludeObjectPolicy, error) {
	switch p := metav1.IncludeObjectPolicy(value); p {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return p, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: includeObject: Invalid value: %q: "+
		"must be 'Metadata', 'Object', 'None', or empty", value))
}
