// Command reserve takes a payment once, with Go's standard library: reserve, renew, write with the fencing token, complete.
//
//	FENCEPOST_URL=http://127.0.0.1:8081 go run ./reserve order-4711
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type reply struct {
	Code              string          `json:"code"`
	Detail            string          `json:"detail"`
	ReservationStatus string          `json:"reservation_status"`
	Result            json.RawMessage `json:"result"`
	ReservationID     string          `json:"reservation_id"`
	FencingToken      int64           `json:"fencing_token"`
	Attempt           int             `json:"attempt"`
	ExpiresInMs       int64           `json:"expires_in_ms"`
}

var (
	api    = env("FENCEPOST_URL", "http://127.0.0.1:8081")
	client = http.Client{Timeout: 15 * time.Second}

	errLost   = errors.New("the lease was lost: another worker may have begun")
	errFenced = errors.New("fenced: a later worker wrote this payment")
)

func call(ctx context.Context, path string, body any) (int, reply, error) {
	var answer reply
	text, err := json.Marshal(body)
	if err != nil {
		return 0, answer, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, api+path, bytes.NewReader(text))
	if err != nil {
		return 0, answer, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, answer, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer, err
}

// heartbeat extends the lease every third of it, and cancels the work before the lease is over.
func heartbeat(ctx context.Context, lose context.CancelCauseFunc, held reply, sentAt time.Time, extended chan<- struct{}) {
	lease := time.Duration(held.ExpiresInMs) * time.Millisecond
	goodUntil := sentAt.Add(lease * 95 / 100)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(lease/3, time.Until(goodUntil))):
		}
		sent := time.Now()
		// One try must not take the time that is left.
		try, done := context.WithDeadline(ctx, goodUntil)
		status, _, err := call(try, "/v1/reservations/"+held.ReservationID+"/extend", map[string]any{"fencing_token": held.FencingToken})
		done()
		if err == nil && status == http.StatusOK {
			goodUntil = sent.Add(lease * 95 / 100)
			select {
			case extended <- struct{}{}:
			default:
			}
		}
		if status == http.StatusGone || !time.Now().Before(goodUntil) {
			lose(errLost)
			return
		}
	}
}

// payOnce reports whether the result is that of an earlier call.
func payOnce(ctx context.Context, ledger *ledger, order string, amount int) (replayed bool, result json.RawMessage, err error) {
	sentAt := time.Now()
	status, held, err := call(ctx, "/v1/reservations", map[string]any{
		// One session for all tries: after an answer that was lost, the same call gets the same reservation.
		"session_id":     fmt.Sprintf("%s-%d-%d", order, os.Getpid(), sentAt.UnixNano()),
		"reserved_value": "payment:" + order,
		"lease":          "3s",
		"wait":           "5s",
	})
	if err != nil {
		return false, nil, err
	}
	if status == http.StatusConflict && held.ReservationStatus == "DUPLICATE" {
		return true, held.Result, nil
	}
	if status != http.StatusCreated {
		return false, nil, fmt.Errorf("%d %s: %s", status, held.Code, held.Detail)
	}

	work, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	extended := make(chan struct{}, 1)
	go heartbeat(work, lose, held, sentAt, extended)

	// … the work: pass the context to whatever can be cancelled. Here it outlasts a third of its lease …
	select {
	case <-extended:
	case <-work.Done():
		return false, nil, context.Cause(work)
	}
	if err := ledger.write(order, amount, held.FencingToken); err != nil {
		return false, nil, err
	}
	result, err = json.Marshal(map[string]any{"order": order, "amount": amount})
	if err != nil {
		return false, nil, err
	}
	status, ended, err := call(ctx, "/v1/reservations/"+held.ReservationID+"/complete", map[string]any{
		"fencing_token": held.FencingToken, "result": result,
	})
	if err != nil {
		return false, nil, err
	}
	if status != http.StatusOK { // 410: another outcome stands. 503: not known; reserve again tells
		return false, nil, fmt.Errorf("%d %s: %s", status, ended.Code, ended.Detail)
	}
	return false, result, nil
}

// ledger stands for a table with a column fencing_token, in a file: a line for each payment, "order amount token".
type ledger struct{ path string }

// write refuses a token that is smaller than that of the row, as in SQL
// ON CONFLICT (order_id) DO UPDATE … WHERE payment.fencing_token <= excluded.fencing_token.
// In a database this is one statement; a file has no such, and serves one process at a time.
func (l *ledger) write(order string, amount int, token int64) error {
	text, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != order {
			continue
		}
		newest, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || newest > token {
			return errors.Join(errFenced, err)
		}
		return nil // an earlier attempt paid, and could not say so: complete with what is there
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, order, amount, token)
	return errors.Join(err, file.Close())
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	order := "order-4711"
	if len(os.Args) > 1 {
		order = os.Args[1]
	}
	replayed, result, err := payOnce(context.Background(), &ledger{env("LEDGER", "payments.txt")}, order, 1200)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	how := "created"
	if replayed {
		how = "replayed"
	}
	fmt.Println(how, string(result))
}
