/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest-hog: use a CPU, inside the guest, until something kills it
 *
 * An emulated CPU pays for jumps and memory accesses rather than for
 * instructions; and where its turn ends in the middle of a block without jumps,
 * for the translation of a part of that. So there are few jumps, and the block
 * is short. To the guest, whose clock counts instructions, this is a hog like
 * any other; the host needs a fraction of the time that an empty loop of a
 * shell or of C takes it.
 */

__asm__(".globl _start\n"
	"_start:\n"
	"	.rept 126\n"
	"	nop\n"
	"	.endr\n"
	"	jmp _start\n");
