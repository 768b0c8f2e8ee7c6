// A receiver of notifications, with nothing but the standard library: go run receiver.go PORT SECRET
//
// It answers 401 to what is not signed with the secret, 409 to a sender that woke up late, and 204 to everything else.
// What came already is answered and not handled again.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tolerance    = 5 * time.Minute
	bodyBytesMax = 24 << 20
)

type receiver struct {
	key []byte

	// In a service these are tables, changed in the transaction that handles the notification.
	mutex        sync.Mutex
	seenIDs      map[string]bool
	newestEpochs map[string]uint64
}

func handle(body []byte) {
	fmt.Println(string(body))
}

// isSigned follows Standard Webhooks: one of the signatures is right, and the request is not an old one.
func (r *receiver) isSigned(header http.Header, body []byte) bool {
	timestamp := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.", header.Get("webhook-id"), timestamp)
	mac.Write(body)
	right := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, one := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(one), right) {
			return true
		}
	}
	return false
}

func (r *receiver) receive(header http.Header, body []byte) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	queue := header.Get("redrive-queue")
	if epoch, err := strconv.ParseUint(header.Get("redrive-epoch"), 10, 64); err == nil && queue != "" {
		if epoch < r.newestEpochs[queue] {
			return http.StatusConflict
		}
		r.newestEpochs[queue] = epoch
	}
	if id := header.Get("webhook-id"); !r.seenIDs[id] {
		handle(body)
		r.seenIDs[id] = true
	}
	return http.StatusNoContent
}

func (r *receiver) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		writer.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(writer, request.Body, bodyBytesMax))
	switch {
	case err != nil:
		writer.WriteHeader(http.StatusRequestEntityTooLarge)
	case !r.isSigned(request.Header, body):
		writer.WriteHeader(http.StatusUnauthorized)
	default:
		writer.WriteHeader(r.receive(request.Header, body))
	}
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Args[2], "whsec_"))
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", listener.Addr())
	panic(http.Serve(listener, &receiver{key: key, seenIDs: map[string]bool{}, newestEpochs: map[string]uint64{}}))
}
