/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A multiboot guest for -smp 4: CPUs 1 to 3 each execute the same loop, at 0x8000, a thousand times and halt.
 */
	.set	ICR_LOW, 0xfee00300
	.set	SPURIOUS, 0xfee000f0
	.set	INIT_OTHERS, 0xc4500
	.set	START_OTHERS, 0xc4608	/* at page 8 */
	.set	PLACE, 0x8000
	.set	DONE, 0x9000
	.set	DEBUG_EXIT, 0x501

	.long	0x1badb002, 0, -0x1badb002

	.text
	.globl	_start
_start:	cli
	cld
	movl	$others, %esi
	movl	$PLACE, %edi
	movl	$end - others, %ecx
	rep movsb
	movl	$0, DONE
	movl	$0x1ff, SPURIOUS
	movl	$INIT_OTHERS, ICR_LOW
	movl	$100000, %ecx
1:	loop	1b
	movl	$START_OTHERS, ICR_LOW
2:	pause
	cmpl	$3, DONE
	jb	2b
	movw	$DEBUG_EXIT, %dx
	outb	%al, %dx
3:	hlt
	jmp	3b

	.code16
others:	movw	$1000, %cx
4:	loop	4b
	xorw	%ax, %ax
	movw	%ax, %ds
	lock incl DONE
5:	cli
	hlt
	jmp	5b
end:
