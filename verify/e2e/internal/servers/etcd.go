package servers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// etcdReady asks etcd whether it serves.
func (s *Server) etcdReady(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.EtcdURL+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s", resp.Status)
	}
	return nil
}

// callEtcd calls etcd's JSON gateway. So this module needs no etcd client.
func (s *Server) callEtcd(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.EtcdURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s: %s", path, resp.Status, body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}

// Revision returns etcd's revision, which is the newest resource version of any collection.
func (s *Server) Revision(ctx context.Context) (int64, error) {
	var out struct {
		Header struct{ Revision string }
	}
	if err := s.callEtcd(ctx, "/v3/kv/range", map[string]any{"key": []byte("none")}, &out); err != nil {
		return 0, err
	}
	return strconv.ParseInt(out.Header.Revision, 10, 64)
}

// Compact makes etcd forget everything before its current revision, and returns that revision. The
// API server's watch caches still have older versions in memory.
func (s *Server) Compact(ctx context.Context) (int64, error) {
	revision, err := s.Revision(ctx)
	if err != nil {
		return 0, err
	}
	return revision, s.callEtcd(ctx, "/v3/kv/compaction",
		map[string]any{"revision": strconv.FormatInt(revision, 10), "physical": true}, nil)
}

// Put writes values, by key, directly into etcd. It puts up to a hundred of them into a
// transaction; these get the same resource version. The API servers read objects from there as JSON
// with kind and apiVersion, under the key /registry/<resource>/<namespace>/<name>.
func (s *Server) Put(ctx context.Context, values map[string][]byte) error {
	type put struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	type op struct {
		RequestPut put `json:"request_put"`
	}
	var ops []op
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		err := s.callEtcd(ctx, "/v3/kv/txn", map[string]any{"success": ops}, nil)
		ops, size = ops[:0], 0
		return err
	}
	for key, value := range values {
		ops = append(ops, op{put{base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString(value)}})
		size += len(value)
		if len(ops) == 100 || size > 500_000 { // etcd takes requests of 1.5 MB
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// Delete deletes a key from etcd.
func (s *Server) Delete(ctx context.Context, key string) error {
	return s.callEtcd(ctx, "/v3/kv/deleterange", map[string]any{"key": []byte(key)}, nil)
}
