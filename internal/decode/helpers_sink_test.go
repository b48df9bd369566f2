package decode

//lint:file-ignore SA5008 Odd tags are what the decoder is tested with.

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A sink has a field of each type that API types have, and of those that encoding/json treats in a
// special way.
type sink struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              sinkSpec  `json:"spec,omitempty"`
	Next              *sink     `json:"next,omitempty"`
	Status            *struct{} `json:"status,omitempty"`
}

type sinkSpec struct {
	inlined    `json:",inline"`
	*Reference `json:",inline"`
	Other

	Str     string  `json:"str,omitempty"`
	Named   label   `json:"named,omitempty"`
	StrP    *string `json:"strP,omitempty"`
	Flag    bool    `json:"flag,omitempty"`
	FlagP   *bool   `json:"flagP,omitempty"`
	I       int
	I8      int8             `json:"i8,omitempty"`
	I16     int16            `json:"i16,omitempty"`
	I32     int32            `json:"i32,omitempty"`
	I64P    *int64           `json:"i64P,omitempty"`
	U8      uint8            `json:"u8,omitempty"`
	U16     uint16           `json:"u16,omitempty"`
	U32     uint32           `json:"u32,omitempty"`
	U64     uint64           `json:"u64,omitempty"`
	F32     float32          `json:"f32,omitempty"`
	F64     float64          `json:"f64,omitempty"`
	Bytes   []byte           `json:"bytes,omitempty"`
	Quoted  int64            `json:"quoted,string"`
	QuotedS string           `json:"quotedS,string"`
	Ignored string           `json:"-"`
	Dash    string           `json:"-,"`
	Any     any              `json:"any,omitempty"`
	Err     error            `json:"err,omitempty"`
	Number  json.Number      `json:"number,omitempty"`
	Func    func()           `json:"func,omitempty"`
	Dur     time.Duration    `json:"dur,omitempty"`
	DurM    *metav1.Duration `json:"durM,omitempty"`

	Time   metav1.Time           `json:"time,omitempty"`
	TimeP  *metav1.Time          `json:"timeP,omitempty"`
	Micro  metav1.MicroTime      `json:"micro,omitempty"`
	Std    time.Time             `json:"std,omitempty"`
	Qty    resource.Quantity     `json:"qty,omitempty"`
	QtyP   *resource.Quantity    `json:"qtyP,omitempty"`
	IntStr intstr.IntOrString    `json:"intStr,omitempty"`
	PortP  *intstr.IntOrString   `json:"portP,omitempty"`
	Ext    runtime.RawExtension  `json:"ext,omitempty"`
	ExtP   *runtime.RawExtension `json:"extP,omitempty"`
	Fields *metav1.FieldsV1      `json:"fields,omitempty"`
	Raw    json.RawMessage       `json:"raw,omitempty"`
	Text   textual               `json:"text,omitempty"`
	Sel    *metav1.LabelSelector `json:"sel,omitempty"`

	Strs    []string                    `json:"strs,omitempty"`
	Labels  []label                     `json:"labels,omitempty"`
	Structs []Reference                 `json:"structs,omitempty"`
	Ptrs    []*Reference                `json:"ptrs,omitempty"`
	Deep    [][]int32                   `json:"deep,omitempty"`
	Array   [2]int32                    `json:"array,omitempty"`
	M       map[string]string           `json:"m,omitempty"`
	MB      map[string][]byte           `json:"mb,omitempty"`
	MQ      map[label]resource.Quantity `json:"mq,omitempty"`
	MS      map[string]Reference        `json:"ms,omitempty"`
	MSl     map[string][]string         `json:"msl,omitempty"`
	MI      map[int32]string            `json:"mi,omitempty"`
	MT      map[textual]string          `json:"mt,omitempty"`
	MA      map[string]any              `json:"ma,omitempty"`
	PP      **int32                     `json:"pp,omitempty"`
	Self    map[string]sinkSpec         `json:"self,omitempty"`
	List    []sinkSpec                  `json:"list,omitempty"`
}

type label string

type inlined struct {
	Inline string `json:"inline,omitempty"`
	// Hidden by the field that is embedded less deep.
	Shadow string `json:"str,omitempty"`
}

type Reference struct {
	Kind string `json:"refKind,omitempty"`
	Name string `json:"refName,omitempty"`
	UID  *int32 `json:"refUID,omitempty"`
}

// Other and Reference both have the name refName, so it is the name of neither.
type Other struct {
	Name string `json:"refName,omitempty"`
	Own  string `json:"own,omitempty"`
}

// A textual decodes itself from a string.
type textual struct{ s string }

func (t *textual) UnmarshalText(b []byte) error { t.s = "text:" + string(b); return nil }

func (t textual) MarshalText() ([]byte, error) { return []byte(t.s), nil }
