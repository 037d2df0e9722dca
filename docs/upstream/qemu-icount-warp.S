/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A multiboot guest that halts until its local APIC timer fires, 1,000 times, and reads the virtual clock
 * (rdtsc under -icount shift=0) in the interrupt handler. Each interrupt must come equally long after its
 * timer was armed. Prints how many came later than the earliest, and by how many ns at most (both in hex).
 *
 * Before each halt it fires four times while the CPU executes, which wakes QEMU's main loop. The CPU then
 * executes a varying number of instructions, so that it sometimes halts just when the main loop looks.
 */
	.set	ROUNDS, 1000
	.set	SHOTS, 4
	.set	SOON, 2000		/* ns */
	.set	LATER, 1000000
	.set	APIC, 0xfee00000
	.set	SPURIOUS, APIC + 0xf0
	.set	EOI, APIC + 0xb0
	.set	LVT_TIMER, APIC + 0x320
	.set	INITIAL_COUNT, APIC + 0x380
	.set	DIVIDE, APIC + 0x3e0
	.set	VECTOR, 0x20
	.set	DEBUGCON, 0xe9
	.set	DEBUG_EXIT, 0x501

	.long	0x1badb002, 0, -0x1badb002

	.text
	.globl	_start
_start:	cli
	movl	$stack, %esp
	lgdt	gdt_pointer
	ljmp	$8, $1f
1:	movl	$16, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	$fired, %eax
	movw	%ax, idt + 8 * VECTOR
	shrl	$16, %eax
	movl	$0x8e00, idt + 8 * VECTOR + 4
	movw	%ax, idt + 8 * VECTOR + 6
	movw	$8, idt + 8 * VECTOR + 2
	lidt	idt_pointer
	movb	$0xff, %al		/* no interrupts of the old controllers */
	outb	%al, $0x21
	outb	%al, $0xa1
	movl	$0x1ff, SPURIOUS
	movl	$0xb, DIVIDE		/* by 1: one count is 1 ns */
	movl	$VECTOR, LVT_TIMER

	xorl	%edi, %edi
	/* edi: round; ebp: how often the timer has fired; ebx: when it did last */
round:	movl	$SHOTS, %ecx
shoot:	movl	%ebp, %eax
	movl	$SOON, INITIAL_COUNT
	sti
2:	cmpl	%ebp, %eax
	je	2b
	cli
	loop	shoot
	rdtsc
	movl	%eax, %esi
	movl	$LATER, INITIAL_COUNT
	imull	$97, %edi, %ecx
	andl	$0xfff, %ecx
	incl	%ecx
3:	decl	%ecx
	jnz	3b
	sti
	hlt
	cli
	subl	%esi, %ebx
	movl	%ebx, waits(, %edi, 4)
	incl	%edi
	cmpl	$ROUNDS, %edi
	jb	round

	movl	waits, %eax		/* eax: the shortest, edx: the longest */
	movl	%eax, %edx
	xorl	%edi, %edi
4:	movl	waits(, %edi, 4), %ecx
	cmpl	%eax, %ecx
	cmovbl	%ecx, %eax
	cmpl	%edx, %ecx
	cmoval	%ecx, %edx
	incl	%edi
	cmpl	$ROUNDS, %edi
	jb	4b
	subl	%eax, %edx
	xorl	%ebx, %ebx		/* ebx: how many were longer than the shortest */
	xorl	%edi, %edi
5:	cmpl	%eax, waits(, %edi, 4)
	setne	%cl
	movzbl	%cl, %ecx
	addl	%ecx, %ebx
	incl	%edi
	cmpl	$ROUNDS, %edi
	jb	5b
	call	print
	movb	$' ', %al
	outb	%al, $DEBUGCON
	movl	%edx, %ebx
	call	print
	movb	$'\n', %al
	outb	%al, $DEBUGCON
	movw	$DEBUG_EXIT, %dx
	outb	%al, %dx
6:	hlt
	jmp	6b

print:	movl	$8, %ecx		/* ebx in hex */
7:	roll	$4, %ebx
	movl	%ebx, %eax
	andl	$15, %eax
	movb	digits(%eax), %al
	outb	%al, $DEBUGCON
	loop	7b
	ret

fired:	pushl	%eax
	pushl	%edx
	rdtsc
	movl	%eax, %ebx
	incl	%ebp
	movl	$0, EOI
	popl	%edx
	popl	%eax
	iret

digits:	.ascii	"0123456789abcdef"
	.balign	8
gdt:	.quad	0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_pointer:
	.word	. - gdt - 1
	.long	gdt
idt_pointer:
	.word	8 * 256 - 1
	.long	idt

	.bss
	.balign	16
	.space	4096
stack:
idt:	.space	8 * 256
waits:	.space	4 * ROUNDS
