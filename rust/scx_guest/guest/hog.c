/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest-hog: use a CPU, inside the guest, until something kills it
 *
 * An emulated CPU pays for jumps and memory accesses rather than for
 * instructions. To the guest, whose clock counts instructions, this is a hog
 * like any other; the host needs a fraction of the time that an empty loop of a
 * shell or of C takes it.
 */

__asm__(".globl _start\n"
	"_start:\n"
	"	.rept 4096\n"
	"	nop\n"
	"	.endr\n"
	"	jmp _start\n");
