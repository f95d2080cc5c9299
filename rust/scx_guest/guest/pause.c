/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest-pause: stop the machine, and go on with another script
 *
 *	guest-pause >SCRIPT
 *
 *   1. Write to QEMU's pvpanic device, at which QEMU stops between this
 *      instruction and the next. What the machine is then can be kept.
 *   2. In each machine that goes on from there, copy the file that it was
 *      given, by QEMU's fw_cfg device, to standard output.
 *
 * Exits with 1 if there is no such file or it cannot be copied. No C library,
 * as guest-clock.
 */

#define SYS_WRITE 1
#define SYS_IOPL  172
#define SYS_EXIT  60

#define PVPANIC_PORT	 0x505
#define PVPANIC_PANICKED 1

#define FW_CFG_SELECT 0x510
#define FW_CFG_DATA   0x511
/* The key of the list of files, all of which have keys of their own. */
#define FW_CFG_FILE_DIR 0x19
#define FW_CFG_NAME_LEN 56

static const char script_name[] = "opt/scx_guest/script";

static long syscall3(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

static void outb(unsigned short port, unsigned char value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static void outw(unsigned short port, unsigned short value)
{
	__asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static unsigned char read_byte(void)
{
	unsigned char value;

	__asm__ volatile("inb %1, %0"
			 : "=a"(value)
			 : "Nd"((unsigned short)FW_CFG_DATA));
	return value;
}

/* Read a number of @nr_bytes, the highest first. */
static unsigned int read_number(int nr_bytes)
{
	unsigned int number = 0;

	while (nr_bytes--)
		number = number << 8 | read_byte();
	return number;
}

/* Read a name of the list. Return whether it is that of the script. */
static int read_is_script(void)
{
	int i, is_script = 1, is_over = 0;
	char c;

	for (i = 0; i < FW_CFG_NAME_LEN; i++) {
		c = read_byte();
		if (is_over)
			continue;
		if (i >= (int)sizeof(script_name) || c != script_name[i])
			is_script = 0;
		is_over = !c;
	}
	return is_script;
}

/* Copy @size bytes of the file @key. Return whether that went well. */
static int copy(unsigned short key, unsigned int size)
{
	char bytes[512];
	long nr, written, done;

	outw(FW_CFG_SELECT, key);
	while (size) {
		for (nr = 0; nr < (long)sizeof(bytes) && size; nr++, size--)
			bytes[nr] = read_byte();
		for (written = 0; written < nr; written += done) {
			done = syscall3(SYS_WRITE, 1, (long)bytes + written,
					nr - written);
			if (done <= 0)
				return 0;
		}
	}
	return 1;
}

static int run(void)
{
	unsigned int nr_files, size, key;

	if (syscall3(SYS_IOPL, 3, 0, 0))
		return 1;
	outb(PVPANIC_PORT, PVPANIC_PANICKED);
	outw(FW_CFG_SELECT, FW_CFG_FILE_DIR);
	nr_files = read_number(4);
	while (nr_files--) {
		size = read_number(4);
		key = read_number(2);
		read_number(2); /* reserved */
		if (read_is_script())
			return !copy(key, size);
	}
	return 1;
}

__attribute__((used)) void start_c(void)
{
	syscall3(SYS_EXIT, run(), 0, 0);
}

__asm__(".globl _start\n"
	"_start:\n"
	"	and $-16, %rsp\n"
	"	call start_c\n");
