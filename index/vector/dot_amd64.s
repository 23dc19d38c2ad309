#include "textflag.h"

// func dotAVX2(a *int8, b *int16, n int) int32
//
// Numbers of a become 16 bits wide; products of two neighbours are added up as
// 32 bits, which the caller sees to that they suffice.
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DI
	MOVQ n+16(FP), CX
	XORQ AX, AX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1

step:
	VPMOVSXBW (SI)(AX*1), Y2
	VPMOVSXBW 16(SI)(AX*1), Y3
	VPMADDWD (DI)(AX*2), Y2, Y2
	VPMADDWD 32(DI)(AX*2), Y3, Y3
	VPADDD Y2, Y0, Y0
	VPADDD Y3, Y1, Y1
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  step

	VPADDD Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD X1, X0, X0
	VPHADDD X0, X0, X0
	VPHADDD X0, X0, X0
	VMOVD X0, AX
	MOVL AX, ret+24(FP)
	VZEROUPPER
	RET
