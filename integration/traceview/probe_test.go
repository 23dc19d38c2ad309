package traceview_test
import ("testing";"os";"bytes";"github.com/metamcp/metamcp/integration/traceview")
func TestProbe(t *testing.T){
 os.WriteFile("/tmp/w/tv/s.jsonl", sample().text(t), 0o644)
 tr,err:=traceview.Read(bytes.NewReader(sample().text(t)), traceview.Limits{})
 if err!=nil{t.Fatal(err)}
 traceview.WriteList(os.Stdout,tr.Requests,traceview.Style{})
 for _,w:=range []int{130,90,60}{ traceview.WriteSequence(os.Stdout,tr.Requests[1],traceview.Style{Width:w,ASCII:w==90}) }
 traceview.WriteMermaid(os.Stdout,tr.Requests[0])
}
