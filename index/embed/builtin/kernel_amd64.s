#include "textflag.h"

// One step of the inner loop for one of the four rows: the activation is
// broadcast once and meets the 16 weights of the step, which Y8 and Y9 hold.
#define ROW(PTR, LO, HI) \
	VBROADCASTSS (PTR)(AX*4), Y10 \
	VFMADD231PS  Y8, Y10, LO      \
	VFMADD231PS  Y9, Y10, HI

// The end of a row: sum*scale + bias, no less than the floor, to memory.
#define STORE(PTR, LO, HI) \
	VFMADD213PS Y11, Y8, LO \
	VFMADD213PS Y12, Y9, HI \
	VMAXPS      Y13, LO, LO \
	VMAXPS      Y13, HI, HI \
	VMOVUPS     LO, (PTR)   \
	VMOVUPS     HI, 32(PTR)

// func tileAVX2(a *float32, lda int, b *int8, k int, c *float32, ldc int, scale, bias *float32, floor float32)
TEXT ·tileAVX2(SB), NOSPLIT, $0-68
	MOVQ a+0(FP), SI
	MOVQ lda+8(FP), R8
	MOVQ b+16(FP), DI
	MOVQ k+24(FP), CX
	SHLQ $2, R8
	LEAQ (SI)(R8*1), R9
	LEAQ (SI)(R8*2), R10
	LEAQ (R9)(R8*2), R11
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	XORQ AX, AX

step:
	VPMOVSXBD (DI), Y8
	VPMOVSXBD 8(DI), Y9
	VCVTDQ2PS Y8, Y8
	VCVTDQ2PS Y9, Y9
	ROW(SI, Y0, Y1)
	ROW(R9, Y2, Y3)
	ROW(R10, Y4, Y5)
	ROW(R11, Y6, Y7)
	ADDQ $16, DI
	INCQ AX
	CMPQ AX, CX
	JNE  step

	MOVQ c+32(FP), DI
	MOVQ ldc+40(FP), R8
	MOVQ scale+48(FP), SI
	MOVQ bias+56(FP), R9
	VBROADCASTSS floor+64(FP), Y13
	VMOVUPS (SI), Y8
	VMOVUPS 32(SI), Y9
	VMOVUPS (R9), Y11
	VMOVUPS 32(R9), Y12
	SHLQ $2, R8
	STORE(DI, Y0, Y1)
	ADDQ R8, DI
	STORE(DI, Y2, Y3)
	ADDQ R8, DI
	STORE(DI, Y4, Y5)
	ADDQ R8, DI
	STORE(DI, Y6, Y7)
	VZEROUPPER
	RET

// func dotAVX2(x, y *float32, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ x+0(FP), SI
	MOVQ y+8(FP), DI
	MOVQ n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	XORQ AX, AX

dotStep:
	VMOVUPS (SI)(AX*4), Y2
	VMOVUPS 32(SI)(AX*4), Y3
	VFMADD231PS (DI)(AX*4), Y2, Y0
	VFMADD231PS 32(DI)(AX*4), Y3, Y1
	ADDQ $16, AX
	CMPQ AX, CX
	JLT  dotStep

	VADDPS Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VHADDPS X0, X0, X0
	VHADDPS X0, X0, X0
	MOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func axpyAVX2(alpha float32, x, y *float32, n int)
TEXT ·axpyAVX2(SB), NOSPLIT, $0-32
	VBROADCASTSS alpha+0(FP), Y2
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DI
	MOVQ n+24(FP), CX
	XORQ AX, AX

axpyStep:
	VMOVUPS (DI)(AX*4), Y0
	VMOVUPS 32(DI)(AX*4), Y1
	VFMADD231PS (SI)(AX*4), Y2, Y0
	VFMADD231PS 32(SI)(AX*4), Y2, Y1
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	ADDQ $16, AX
	CMPQ AX, CX
	JLT  axpyStep

	VZEROUPPER
	RET
