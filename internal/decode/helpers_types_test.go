package decode

//lint:file-ignore SA5008 Odd tags are what the decoder is tested with.

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A pod has the shape and size of a Deployment's pod. k8s.io/api is no dependency of this module.
type pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              podSpec   `json:"spec,omitempty"`
	Status            podStatus `json:"status,omitempty"`
}

func (p *pod) DeepCopyObject() runtime.Object { c := *p; return &c }

type podSpec struct {
	Volumes                       []volume          `json:"volumes,omitempty"`
	Containers                    []container       `json:"containers"`
	RestartPolicy                 string            `json:"restartPolicy,omitempty"`
	TerminationGracePeriodSeconds *int64            `json:"terminationGracePeriodSeconds,omitempty"`
	DNSPolicy                     string            `json:"dnsPolicy,omitempty"`
	NodeSelector                  map[string]string `json:"nodeSelector,omitempty"`
	ServiceAccountName            string            `json:"serviceAccountName,omitempty"`
	NodeName                      string            `json:"nodeName,omitempty"`
	SchedulerName                 string            `json:"schedulerName,omitempty"`
	Tolerations                   []toleration      `json:"tolerations,omitempty"`
	Priority                      *int32            `json:"priority,omitempty"`
	EnableServiceLinks            *bool             `json:"enableServiceLinks,omitempty"`
}

type volume struct {
	Name      string `json:"name"`
	Projected *struct {
		Sources []struct {
			ServiceAccountToken *struct {
				ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
				Path              string `json:"path"`
			} `json:"serviceAccountToken,omitempty"`
			ConfigMap *struct {
				Name  string `json:"name,omitempty"`
				Items []struct {
					Key  string `json:"key"`
					Path string `json:"path"`
				} `json:"items,omitempty"`
			} `json:"configMap,omitempty"`
		} `json:"sources"`
		DefaultMode *int32 `json:"defaultMode,omitempty"`
	} `json:"projected,omitempty"`
}

type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image,omitempty"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Ports   []struct {
		Name          string `json:"name,omitempty"`
		ContainerPort int32  `json:"containerPort"`
		Protocol      string `json:"protocol,omitempty"`
	} `json:"ports,omitempty"`
	Env []struct {
		Name      string `json:"name"`
		Value     string `json:"value,omitempty"`
		ValueFrom *struct {
			FieldRef *struct {
				APIVersion string `json:"apiVersion,omitempty"`
				FieldPath  string `json:"fieldPath"`
			} `json:"fieldRef,omitempty"`
		} `json:"valueFrom,omitempty"`
	} `json:"env,omitempty"`
	Resources struct {
		Limits   map[string]resource.Quantity `json:"limits,omitempty"`
		Requests map[string]resource.Quantity `json:"requests,omitempty"`
	} `json:"resources,omitempty"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		ReadOnly  bool   `json:"readOnly,omitempty"`
		MountPath string `json:"mountPath"`
	} `json:"volumeMounts,omitempty"`
	LivenessProbe          *probe `json:"livenessProbe,omitempty"`
	ReadinessProbe         *probe `json:"readinessProbe,omitempty"`
	TerminationMessagePath string `json:"terminationMessagePath,omitempty"`
	ImagePullPolicy        string `json:"imagePullPolicy,omitempty"`
}

type probe struct {
	HTTPGet *struct {
		Path   string             `json:"path,omitempty"`
		Port   intstr.IntOrString `json:"port"`
		Scheme string             `json:"scheme,omitempty"`
	} `json:"httpGet,omitempty"`
	TimeoutSeconds   int32 `json:"timeoutSeconds,omitempty"`
	PeriodSeconds    int32 `json:"periodSeconds,omitempty"`
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

type toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

type podStatus struct {
	Phase      string `json:"phase,omitempty"`
	Conditions []struct {
		Type               string      `json:"type"`
		Status             string      `json:"status"`
		LastProbeTime      metav1.Time `json:"lastProbeTime,omitempty"`
		LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
		ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	} `json:"conditions,omitempty"`
	HostIP string `json:"hostIP,omitempty"`
	PodIP  string `json:"podIP,omitempty"`
	PodIPs []struct {
		IP string `json:"ip"`
	} `json:"podIPs,omitempty"`
	StartTime         *metav1.Time `json:"startTime,omitempty"`
	ContainerStatuses []struct {
		Name  string `json:"name"`
		State struct {
			Running *struct {
				StartedAt metav1.Time `json:"startedAt,omitempty"`
			} `json:"running,omitempty"`
		} `json:"state,omitempty"`
		Ready        bool   `json:"ready"`
		RestartCount int32  `json:"restartCount"`
		Image        string `json:"image"`
		ImageID      string `json:"imageID"`
		ContainerID  string `json:"containerID,omitempty"`
		Started      *bool  `json:"started,omitempty"`
	} `json:"containerStatuses,omitempty"`
	QOSClass string `json:"qosClass,omitempty"`
}

// podJSON returns pod i, of about 8 KiB. The pods differ where those of one Deployment do.
func podJSON(i int) []byte {
	app := fmt.Sprintf("app-%d", i/10)
	containerJSON := func(name string) string {
		env := []string{`{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}`}
		for e := range 12 {
			env = append(env, fmt.Sprintf(`{"name":"SETTING_%d","value":"the value of setting %d of %s"}`, e, e, name))
		}
		probe := func(path string) string {
			return fmt.Sprintf(`{"httpGet":{"path":%q,"port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}`, path)
		}
		return fmt.Sprintf(`{"name":%q,"image":"registry.example/team/%s:v1.%d.0","command":["/bin/server"],"args":["--listen=:8080","--log-level=info"],`+
			`"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics","containerPort":9090,"protocol":"TCP"}],"env":[%s],`+
			`"resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},`+
			`"volumeMounts":[{"name":"kube-api-access-%05d","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],`+
			`"livenessProbe":%s,"readinessProbe":%s,"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}`,
			name, app, i/10, strings.Join(env, ","), i, probe("/healthz"), probe("/readyz"))
	}
	var managed []string
	for m, manager := range []string{"kube-controller-manager", "kubelet"} {
		var fields []string
		for f := range 28 {
			fields = append(fields, fmt.Sprintf(`"f:field%dOf%d":{".":{},"f:name":{},"f:value":{}}`, f, m))
		}
		managed = append(managed, fmt.Sprintf(`{"manager":%q,"operation":"Update","apiVersion":"v1","time":"2026-03-04T05:06:%02dZ","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{%s}}}`,
			manager, i%60, strings.Join(fields, ",")))
	}
	var labels, conditions, statuses []string
	for l := range 8 {
		labels = append(labels, fmt.Sprintf(`"app.example/label-%d":"value-%d"`, l, l))
	}
	for _, c := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-03-04T05:06:%02dZ","observedGeneration":1}`, c, i%60))
	}
	for _, c := range []string{"server", "proxy"} {
		statuses = append(statuses,
			fmt.Sprintf(`{"name":%q,"state":{"running":{"startedAt":"2026-03-04T05:06:07Z"}},"ready":true,"restartCount":0,`+
				`"image":"registry.example/team/%s:v1","imageID":"registry.example/team/%s@sha256:%064d","containerID":"containerd://%064d","started":true}`, c, app, app, i/10, i))
	}
	return fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s-%d","generateName":"%s-","namespace":"ns-%d","uid":"00000000-0000-0000-0000-%012d",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-03-04T05:06:07Z","labels":{"app":%q,"pod-template-hash":"%d",%s},"annotations":{"example/config-hash":"%064d"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"%s","uid":"11111111-0000-0000-0000-%012d","controller":true,"blockOwnerDeletion":true}],"managedFields":[%s]},`+
		`"spec":{"volumes":[{"name":"kube-api-access-%05d","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],`+
		`"containers":[%s,%s],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeSelector":{"kubernetes.io/os":"linux"},"serviceAccountName":"default","nodeName":"node-%d",`+
		`"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true},`+
		`"status":{"phase":"Running","conditions":[%s],"hostIP":"10.0.0.%d","podIP":"10.1.%d.%d","podIPs":[{"ip":"10.1.%d.%d"}],"startTime":"2026-03-04T05:06:07Z","containerStatuses":[%s],"qosClass":"Burstable"}}`,
		app, i, app, i%20, i, 1000+i, app, i/10, strings.Join(labels, ","), i/10, app, i/10, strings.Join(managed, ","), i,
		containerJSON("server"), containerJSON("proxy"), i%50, strings.Join(conditions, ","), i%250, i/250, i%250, i/250,
		i%250, strings.Join(statuses, ","))
}

func podFrames(n int) (frames []byte) {
	for i := range n {
		frames = fmt.Appendf(frames, "{\"type\":\"MODIFIED\",\"object\":%s}\n", podJSON(i))
	}
	return frames
}

// A sink has a field of each type that API types have, or that encoding/json treats in its own way.
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
