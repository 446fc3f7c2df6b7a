/* The command `tenon`: options, messages, exit codes, files. TENON_COMMAND is its path. */
#include "command.h"
#include "run_graph.h"

static void write_array(const char *name, tenon_view view) {
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    OK(tenon_npy_save(path, &view));
}

static void set_up(void) {
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {2, 4, 6, 5, 7, 9}, wrong[6] = {2, 4, 6, 5, 7, 9.01f};
    make_directory();
    write_file("m.txt", "graph m {\n"
                        "  symbol s0 in [2, 8]\n"
                        "  input %x: float32[s0, 3]\n"
                        "  input %z: float32[2*s0]\n"
                        "  const %w: float32[3] = {1, 2, 3}\n"
                        "  %y = aten.add.Tensor(%x, %w)\n"
                        "  output \"a/y\" = %y\n"
                        "  output \"z\" = %z\n"
                        "}\n");
    write_file("e.txt", "graph e {\n"
                        "  input %ids: int64[4, 16]\n"
                        "  input %mask: int64[4, 16]\n"
                        "  const %table: float32[5, 2] = random(1)\n"
                        "  %v = aten.view(%ids, [64])\n"
                        "  %p = aten.add.Tensor(%v, 2)\n"
                        "  %e = aten.embedding(%table, %p)\n"
                        "  %n = aten.neg(%mask)\n"
                        "  output \"e\" = %e\n"
                        "  output \"ids\" = %ids\n"
                        "  output \"n\" = %n\n"
                        "}\n");
    write_file("n.txt", "graph n {\n"
                        "  input %x: float32[2]\n"
                        "  input %n: symint\n"
                        "  %y = aten.mul.Tensor(%x, %n)\n"
                        "  %b = aten.to.dtype(%y, bfloat16)\n"
                        "  output \"y\" = %b\n"
                        "  output \"n\" = %n\n"
                        "  output \"none\" = none\n"
                        "}\n");
    write_file("d.txt", "graph d {\n"
                        "  input %x: float32[8, 64]\n"
                        "  const %w: float32[64, 32] = random(1)\n"
                        "  %y = aten.mm(%x, %w) in \"body.mm\"\n"
                        "  %z = aten.relu(%y) in \"body.act\"\n"
                        "  output \"z\" = %z\n"
                        "}\n");
    int64_t ids[3] = {((int64_t)1 << 53) + 1, 17, 42}, near[3] = {(int64_t)1 << 53, 17, 42};
    tenon_view view = {ids, TENON_INT64, 1, {3}, {1}};
    write_file("i.txt", "graph g {\n  input %x: int64[3]\n  %y = aten.clone(%x)\n"
                        "  output \"y\" = %y\n}\n");
    write_array("ids.npy", view);
    view.data = near;
    write_array("near.npy", view);
    write_array("x.npy", floats(x, 2, 3));
    write_array("z.npy", floats(x, 4, -1));
    write_array("y.npy", floats(y, 2, 3));
    write_array("wrong.npy", floats(wrong, 2, 3));
    write_array("flat.npy", floats(y, 6, -1));
}

START_TEST(usage) {
    REFUSES("", 2, "usage: tenon");
    REFUSES("walk", 2, "no command 'walk'");
    WORKS("--help");
    SAYS(out, "tenon COMMAND");
    WORKS("--version");
    SAYS(out, "tenon 0.1.0");
    SAYS(out, "oneDNN 3.");
    SAYS(out, "thread");
    tenon_build_info info;
    tenon_get_build_info(&info);
    ck_assert_uint_gt(strlen(info.cpu), 0);
    SAYS(out, "\nCPU: ");
    SAYS(out, info.cpu);
    WORKS("run --help");
    SAYS(out, "tenon run MODEL");
    SAYS(out, "--tolerance");
    SAYS(out, "Exit status");
    WORKS("info --help");
    WORKS("explain -h");
    WORKS("ops --help");
    REFUSES("run", 2, "no model is given");
    REFUSES("info", 2, "no model is given");
    REFUSES("explain", 2, "no model is given");
    REFUSES("run m.txt m.txt", 2, "one argument too many");
    REFUSES("run m.txt --fast", 2, "--fast");
    REFUSES("run m.txt --random", 2, "--random");
    REFUSES("run nowhere.pt2 --random 1", 1, "nowhere.pt2");
    REFUSES("run x.npy --random 1", 1, "x.npy");
}
END_TEST

START_TEST(bad_options) {
    REFUSES("run m.txt --input x", 2, "not NAME=VALUE");
    REFUSES("run m.txt --input x=x.npy --input x=x.npy", 2, "'x' is given twice");
    REFUSES("run m.txt --input q=x.npy", 2, "no input 'q'; it has:\n  x\n  z\n");
    REFUSES("run m.txt --random 1 --dim s0=2 --expect q=x.npy", 2,
            "no output 'q'; it has:\n  a/y\n  z\n");
    REFUSES("run m.txt", 2, "x: float32[s0, 3]\n  z: float32[2*s0]");
    REFUSES("run m.txt --input x=x.npy", 2, "z: float32[2*s0]");
    REFUSES("run m.txt --random 1", 2, "dimension 0 of input 'x' is s0");
    REFUSES("run m.txt --random 1", 2, "s0: 2 to 8");
    REFUSES("run m.txt --random 1 --dim s1=2", 2, "no symbol 's1'");
    REFUSES("run m.txt --random 1 --dim s0=9", 2, "the model takes 2 to 8");
    REFUSES("run m.txt --random 1 --dim s0=two", 2, "'two' is not a whole number");
    REFUSES("run e.txt --random 1 --dim s0=2", 2, "all its sizes are fixed");
    REFUSES("run m.txt --random x --dim s0=2", 2, "--random: 'x'");
    REFUSES("run m.txt --random 1 --dim s0=2 --iterations 0", 2, "--iterations: '0'");
    REFUSES("run m.txt --random 1 --dim s0=2 --tolerance -1", 2, "--tolerance: '-1'");
    REFUSES("run m.txt --random 1 --dim s0=2 --backend gpu", 2,
            "'gpu' is not auto, onednn or reference");
    REFUSES("run m.txt --random 1 --dim s0=2 --precision fp8", 2, "'fp8' is not fp32 or bf16");
    REFUSES("run m.txt --random 1 --dim s0=2 --fpmath tf32", 2, "'tf32' is not strict or bf16");
    REFUSES("run m.txt --random 1 --dim s0=2 --threads -1", 2, "--threads: '-1'");
    REFUSES("run m.txt --input x=gone.npy --random 1", 1, "gone.npy");
    REFUSES("run m.txt --input x=m.txt --random 1", 1, "m.txt");
    REFUSES("run m.txt --input x=flat.npy --random 1 --dim s0=2", 1,
            "'x': its rank is 1, the model takes 2");
    REFUSES("run m.txt --input x=x.npy --input z=flat.npy", 1, "'z': dimension 0 is 6");
}
END_TEST

START_TEST(outputs_are_printed_written_and_compared) {
    static char again[1 << 16];
    WORKS("run m.txt --input x=x.npy --random 5 --output made --expect a/y=y.npy");
    SAYS(out, "output a/y: float32[2, 3]  min 2  max 9  mean 5.5   2 4 6 5 7 9\n");
    SAYS(out, "output z: float32[4]");
    SAYS(out, "expect a/y: ok");
    SAYS(out, "latency:");
    tenon_tensor *made = NULL;
    char path[5000];
    snprintf(path, sizeof path, "%s/made/a_y.npy", directory);
    OK(tenon_npy_load(path, &made));
    check_floats(tenon_tensor_view(made), (float[6]){2, 4, 6, 5, 7, 9}, 6);
    tenon_tensor_destroy(&made);
    WORKS("run m.txt --input x=x.npy --input z=z.npy --expect z=z.npy --iterations 3 --backend "
          "reference");
    SAYS(out, "of 3 runs");
    SAYS(out, "median");
    SAYS(out, "p90");
    /* The same seed gives the same inputs. */
    WORKS("run m.txt --random 7 --dim s0=3");
    memcpy(again, out, sizeof out);
    *strstr(again, "latency") = 0;
    WORKS("run m.txt --random 7 --dim s0=3 --threads 1");
    *strstr(out, "latency") = 0;
    ck_assert_str_eq(out, again);
    REFUSES("run m.txt --input x=x.npy --random 1 --expect a/y=wrong.npy", 1,
            "largest error 0.01 of 9.01");
    WORKS("run m.txt --input x=x.npy --random 1 --expect a/y=wrong.npy --tolerance 0.01");
    REFUSES("run m.txt --input x=x.npy --random 1 --expect a/y=flat.npy", 1,
            "its shape is another");
    REFUSES("run m.txt --input x=x.npy --random 1 --expect a/y=gone.npy", 1, "gone.npy");
    REFUSES("run m.txt --input x=x.npy --random 1 --output m.txt/sub", 1, "m.txt/sub");
}
END_TEST

/* Indices stay below 5 - 2, and nothing says what the mask means: 0 and 1. */
START_TEST(random_integers_stay_within_their_tables) {
    for (int seed = 0; seed < 5; seed++) {
        char line[64];
        snprintf(line, sizeof line, "run e.txt --random %d", seed);
        WORKS(line);
        SAYS(out, "output ids: int64[4, 16]  min 0  max 2 ");
        SAYS(out, "output n: int64[4, 16]  min -1  max 0 ");
    }
}
END_TEST

START_TEST(numbers_and_other_dtypes) {
    REFUSES("run n.txt --random 1", 2, "--input n=NUMBER");
    REFUSES("run n.txt --random 1 --input n=x.npy", 2, "'x.npy' is not a whole number");
    WORKS("run n.txt --random 1 --input n=3 --output made");
    SAYS(out, "output y: bfloat16[2]");
    SAYS(out, "output n: int64[]  3\n");
    SAYS(out, "output none: None\n");
    tenon_tensor *made = NULL;
    char path[5000];
    snprintf(path, sizeof path, "%s/made/y.npy", directory);
    OK(tenon_npy_load(path, &made));
    ck_assert_int_eq(tenon_tensor_view(made)->dtype, TENON_FLOAT32);
    tenon_tensor_destroy(&made);
    WORKS("run n.txt --random 1 --input n=3 --expect y=made/y.npy");
    REFUSES("run n.txt --random 1 --input n=3 --expect none=made/y.npy", 1, "'none' is None");
}
END_TEST

/* --allow sets each limit of the library by its name. */
START_TEST(limits_are_set) {
    static const char *const names[] = {"nodes",
                                        "elements",
                                        "rank",
                                        "folded_bytes",
                                        "folded_flops",
                                        "run_bytes",
                                        "run_flops",
                                        "run_work",
                                        "compile_bytes",
                                        "compile_work",
                                        "compile_seconds",
                                        "max_nodes",
                                        "max_unpacked_bytes"};
    char arguments[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(arguments, sizeof arguments, "explain d.txt --allow %s=%s", names[i],
                 strcmp(names[i], "rank") == 0 ? "12" : "1e9");
        WORKS(arguments);
        SAYS(out, "partition");
    }
    REFUSES("explain d.txt --allow nodes=1", 1, "more than limits.nodes allows, 1");
    REFUSES("run d.txt --random 1 --allow run_work=10", 1, "--allow run_work=N raises it");
    REFUSES("info d.txt --allow max_unpacked_bytes=10", 1,
            "--allow max_unpacked_bytes=N raises it");
    REFUSES("passes d.txt --allow max_nodes=1", 1, "more than max_nodes allows, 1");
    REFUSES("bench d.txt --allow compile_work=1", 1, "limits.compile_work allows, 1");
    REFUSES("batch d.txt --input x.npy --output o.npy --allow max_nodes=1", 1, "max_nodes allows");
    REFUSES("profile d.txt --allow run_bytes=1", 1, "limits.run_bytes allows, 1");
    REFUSES("run d.txt --allow node=1", 2, "compile_seconds");
    REFUSES("run d.txt --allow nodes", 2, "with one of these names");
    REFUSES("run d.txt --allow nodes=1.5", 2, "not a whole number above 0");
    REFUSES("run d.txt --allow nodes=-1", 2, "not a whole number above 0");
    REFUSES("run d.txt --allow run_work=nan", 2, "not a number above 0");
    WORKS("run d.txt --random 1 --copy-weights --check-weights");
    SAYS(out, "output z");
}
END_TEST

START_TEST(info_tells_the_model) {
    WORKS("info m.txt");
    SAYS(out, "x: float32[s0, 3]");
    SAYS(out, "s0: 2 to 8");
    SAYS(out, "1 constants and 0 buffers, 3 elements, 12 bytes");
    SAYS(out, "1  aten.add.Tensor");
    REFUSES("info gone.pt2", 1, "gone.pt2");
}
END_TEST

START_TEST(explain_tells_the_plan) {
    REFUSES("explain m.txt", 2, "dimension 0 of input 'x' is s0");
    WORKS("explain m.txt --dim s0=2 --backend reference");
    SAYS(out, "0 oneDNN partitions");
    SAYS(out, "aten.add.Tensor");
    SAYS(out, "why:");
    SAYS(out, "1 copies"); /* of z, which is returned as it came */
    WORKS("explain n.txt --input n=2");
    REFUSES("explain n.txt", 2, "--input n=NUMBER");
}
END_TEST

START_TEST(partitions_are_verified) {
    WORKS("run d.txt --random 1 --backend onednn --verify");
    SAYS(out, "output z");
    WORKS("explain d.txt --backend onednn --verify");
    SAYS(out, "MatMul+ReLU");
    SAYS(out,
         "verify mode compared 1 oneDNN partition and 0 results of chosen kernels; left out: 0");
    ck_assert_ptr_null(strstr(out, "dry run"));
}
END_TEST

START_TEST(processes_give_the_same_bytes) {
    char line[128], first[1 << 16], again[1 << 16];
    for (int i = 0; i < 6; i++) {
        snprintf(line, sizeof line, "run d.txt --random 1 --threads 2 --output same%d", i);
        WORKS(line);
        snprintf(line, sizeof line, "same%d/z.npy", i);
        memset(again, 0, sizeof again);
        read_file(line, again, sizeof again);
        if (i == 0)
            memcpy(first, again, sizeof first);
        ck_assert_int_eq(memcmp(first, again, sizeof first), 0);
    }
    ck_assert_str_eq(first + 1, "NUMPY\1"); /* up to the version's second byte, 0 */
}
END_TEST

START_TEST(choices_are_measured_and_told) {
    write_file("c.txt", "graph g { input %x: float32[1, 16, 12, 12]\n"
                        "const %w: float32[16, 16, 3, 3] = random(7, -0.3, 0.3)\n"
                        "%y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
                        "[0, 0], 1)\noutput \"y\" = %y }");
    WORKS("explain c.txt --tune-file choices.json");
    ck_assert_ptr_null(strstr(out, "by measurement"));
    WORKS("run c.txt --random 1 --tune-file choices.json");
    WORKS("explain c.txt --tune-file choices.json --json c.json");
    SAYS(out, " by measurement: ");
    char text[1 << 16];
    read_file("c.json", text, sizeof text);
    SAYS(text, "\"choice\":\"");
    write_file("choices.json", "[]");
    WORKS_LOUDLY("bench c.txt --no-peaks --rounds 1 --niter 1 --tune-file choices.json",
                 "it holds something else");
    REFUSES("run c.txt --random 1 --tune-file ''", 2, "--tune-file: the path is empty");
}
END_TEST

START_TEST(isa_caps_are_told) {
    setenv("TENON_MAX_ISA", "Baseline", 1);
    WORKS("--version");
    SAYS(out, "baseline");
    WORKS("run d.txt --random 1");
    setenv("TENON_MAX_ISA", "sse", 1);
    WORKS_LOUDLY("run d.txt --random 1",
                 "TENON_MAX_ISA is 'sse', not one of baseline, avx2, avx512: it caps nothing");
    ck_assert_ptr_null(strstr(strstr(err, "TENON_MAX_ISA") + 1, "TENON_MAX_ISA"));
}
END_TEST

/* Runs the command where a file may have so many blocks of 512 bytes, and nothing is killed for it;
 * returns its exit status. */
static int tenon_within(int blocks, const char *arguments) {
    char line[9000];
    snprintf(line, sizeof line,
             "cd %s && trap '' XFSZ && ulimit -f %d && " TENON_COMMAND " %s >out 2>err", directory,
             blocks, arguments);
    int status = system(line);
    ck_assert(WIFEXITED(status));
    read_file("err", err, sizeof err);
    return WEXITSTATUS(status);
}

static bool is_there(const char *name) {
    char path[5000];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return lstat(path, &info) == 0;
}

START_TEST(files_are_written_whole_or_not_at_all) {
    static char text[1 << 16];
    char line[9000];
    const char *arguments[] = {"bench d.txt --no-peaks --rounds 1 --niter 1 --html part",
                               "bench d.txt --no-peaks --rounds 1 --niter 50 --json part",
                               "explain d.txt --html part", "explain d.txt --json part",
                               "profile d.txt --iterations 20 --trace part"};
    for (int i = 0; i < 5; i++) {
        for (int before = 0; before < 2; before++) {
            if (before)
                write_file("part", "before");
            int code = tenon_within(2, arguments[i]);
            ck_assert_msg(code == 1, "%s: %d", arguments[i], code);
            SAYS(err, "part: cannot be written: File too large");
            ck_assert_msg(is_there("part") == before, "%s", arguments[i]);
            if (before) {
                read_file("part", text, sizeof text);
                ck_assert_str_eq(text, "before");
                snprintf(line, sizeof line, "%s/part", directory);
                ck_assert_int_eq(unlink(line), 0);
            }
        }
    }
    snprintf(line, sizeof line, "ls %s/part.*", directory);
    ck_assert_int_ne(system(line), 0);
    /* What is no regular file is written in place, and links stay. */
    REFUSES("explain d.txt --json /dev/full", 1, "/dev/full: cannot be written: No space left");
    snprintf(line, sizeof line,
             "cd %s && " TENON_COMMAND " explain d.txt --json /dev/stdout | grep -q '\"steps\"'",
             directory);
    ck_assert_int_eq(system(line), 0);
    snprintf(line, sizeof line, "ln -s part %s/link", directory);
    ck_assert_int_eq(system(line), 0);
    WORKS("explain d.txt --html link");
    read_file("part", text, sizeof text);
    SAYS(text, "<html");
    snprintf(line, sizeof line, "test -L %s/link", directory);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

/* Whatever is written, and under whatever name. */
START_TEST(what_is_read_is_not_written_over) {
    static char before[1 << 16], text[1 << 16];
    char line[9000];
    static const char *const wrong[] = {
        "explain d.txt --json d.txt",
        "explain d.txt --html ./d.txt",
        "explain d.txt --json hard.txt",
        "profile d.txt --iterations 1 --trace soft.txt",
        "profile d.txt --iterations 1 --stacks d.txt",
        "profile d.txt --iterations 1 --memory-timeline d.txt",
        "profile d.txt --iterations 1 --execution-trace d.txt",
        "bench d.txt --no-peaks --rounds 1 --niter 1 --json d.txt",
        "bench m.txt d.txt --no-peaks --rounds 1 --niter 1 --html d.txt",
        "profile m.txt --input x=x.npy --trace x.npy",
        "run d.txt --random 1 --draw-after fold=d.txt"};
    snprintf(line, sizeof line, "cd %s && ln d.txt hard.txt && ln -s d.txt soft.txt && mkfifo pipe",
             directory);
    ck_assert_int_eq(system(line), 0);
    read_file("d.txt", before, sizeof before);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        REFUSES(wrong[i], 2, "is read, and would be written over");
        read_file("d.txt", text, sizeof text);
        ck_assert_str_eq(text, before);
    }
    REFUSES("explain d.txt --json both --html ./both", 2, "--html: './both' is what --json writes");
    ck_assert(!is_there("both"));
    WORKS("explain d.txt --json /dev/null --html /dev/null");
    /* An output is not compared with itself. */
    WORKS("run i.txt --input x=ids.npy --output golden");
    REFUSES("run i.txt --input x=near.npy --output golden --expect y=golden/y.npy", 2,
            "--output: 'golden/y.npy' is what --expect reads");
    WORKS("run i.txt --input x=ids.npy --output other --expect y=golden/y.npy");
    /* Nobody reads the pipe: this does not wait for who might. */
    REFUSES("explain d.txt --json pipe", 1, "pipe: cannot be written: nobody reads this pipe");
    REFUSES("explain d.txt --json ''", 2, "--json: the path is empty");
    REFUSES("explain ''", 2, "the path of the model is empty");
    REFUSES("run d.txt --random 1 --output ''", 2, "--output: the path is empty");
    REFUSES("run d.txt --random 1 --threads 99999999999", 2, "--threads: '99999999999' is not a");
    REFUSES("topology --threads 1e9", 2, "--threads: '1e9' is not a whole number from 0 to 4096");
}
END_TEST

/* Whatever is printed: what does not arrive is a failure, also of what went out before the end. */
START_TEST(full_standard_outputs_are_told) {
    static const char *const lines[] = {"--version",
                                        "--help",
                                        "run d.txt --random 1",
                                        "run --help",
                                        "info d.txt",
                                        "explain d.txt",
                                        "profile d.txt --iterations 1",
                                        "batch --help",
                                        "topology",
                                        "passes",
                                        "passes d.txt",
                                        "ops",
                                        "bench d.txt --no-peaks --rounds 1 --niter 1 --nwarmup 0"};
    char line[6000];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, "cd %s && " TENON_COMMAND " %s >/dev/full 2>err", directory,
                 lines[i]);
        int status = system(line);
        read_file("err", err, sizeof err);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: status %d, %s", lines[i],
                      status, err);
        SAYS(err, "writing to standard output failed");
    }
}
END_TEST

START_TEST(ops_are_listed) {
    WORKS("ops");
    SAYS(out, "aten.convolution");
    SAYS(out, "aten.view ");
    WORKS("ops aten.add.Tensor --schema");
    SAYS(out, "aten::add.Tensor(Tensor self, Tensor other");
    REFUSES("ops no_such_op", 1, "no_such_op");
}
END_TEST

/* Integers are compared as such: neither the tolerance nor float64's digits let a difference by. */
START_TEST(integers_must_be_equal) {
    WORKS("run i.txt --input x=ids.npy --expect y=ids.npy");
    SAYS(out, "expect y: ok, 3 elements are equal");
    REFUSES(
        "run i.txt --input x=ids.npy --expect y=near.npy --tolerance 1", 1,
        "1 of 3 elements, the first, number 0, is 9007199254740993 instead of 9007199254740992");
}
END_TEST

START_TEST(profile_prints_tables) {
    static char text[1 << 16];
    WORKS("profile --help");
    SAYS(out, "tenon profile MODEL");
    SAYS(out, "--granularity");
    WORKS("profile d.txt");
    SAYS(out, "d.txt: 10 runs recorded, from ProfilerStep#1 on\n");
    SAYS(out,
         "Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  \n");
    SAYS(out, "  ProfilerStep*  ");
    SAYS(out, "  tenon_context_run  ");
    SAYS(out, "\nSelf CPU time total: ");
    ck_assert_ptr_null(strstr(out, "CPU Mem"));
    ck_assert_ptr_null(strstr(out, "FLOPs"));
    ck_assert_ptr_null(strstr(out, "Module"));
    WORKS("profile d.txt --iterations 2 --memory --flops --record-shapes --group-by-shape "
          "--group-by-stack 1 --by-module --tree --backend onednn");
    SAYS(out, "d.txt: 2 runs recorded, from ProfilerStep#1 on\n");
    SAYS(out, "Self CPU Mem");
    SAYS(out, "Total KFLOPs");
    SAYS(out, "  float32[8, 64], float32[");
    SAYS(out, "Source Location");
    SAYS(out, "\n(model) ");
    SAYS(out, "\n  body ");
    SAYS(out, "\n    mm ");
    SAYS(out, "us    tenon_context_run\n");
    WORKS("profile d.txt --iterations 1 --backend onednn --tree");
    SAYS(out, "us      MatMul+ReLU\n");
    WORKS("profile d.txt --iterations 1 --backend onednn --tree --granularity op");
    SAYS(out, "us      MatMul\n");
    SAYS(out, "us      ReLU\n");
    SAYS(out, "perturbed: fusion is off");
    WORKS("profile d.txt --limit 1 --sort key --width 5");
    SAYS(out, "\nte...  ");
    ck_assert_ptr_null(strstr(out, "Pr...  "));
    WORKS("profile d.txt --schedule wait=1,warmup=1,active=2,repeat=2,skip_first=1");
    SAYS(out, "2 runs recorded, from ProfilerStep#3 on\n");
    SAYS(out, "2 runs recorded, from ProfilerStep#7 on\n");
    WORKS("profile d.txt --schedule active=1,repeat=0 --iterations 3");
    SAYS(out, "1 run recorded, from ProfilerStep#0 on\n");
    SAYS(out, "1 run recorded, from ProfilerStep#2 on\n");
    ck_assert_ptr_null(strstr(out, "ProfilerStep#3"));
    WORKS("profile d.txt --schedule wait=4,skip_first_wait=1,skip_first=1,warmup=1,repeat=1");
    SAYS(out, "1 run recorded, from ProfilerStep#2 on\n");
    WORKS("profile m.txt --dim s0=2 --input x=x.npy --iterations 1 --group-by-shape");
    SAYS(out, "float32[2, 3]");
    WORKS("profile d.txt --iterations 1 --trace t.json --stacks s.txt --memory-timeline m.html "
          "--tensorboard tb/traces --execution-trace e.json");
    read_file("t.json", text, sizeof text);
    SAYS(text, "\"ProfilerStep#1\"");
    read_file("s.txt", text, sizeof text);
    SAYS(text, "tenon_context_run");
    read_file("e.json", text, sizeof text);
    SAYS(text, "\"nodes\"");
    read_file("m.html", text, sizeof text);
    SAYS(text, "<html");
    char line[9000];
    snprintf(line, sizeof line, "ls %s/tb/traces/*.pt.trace.json >%s/found", directory, directory);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

START_TEST(profile_refuses) {
    REFUSES("profile", 2, "no model is given");
    REFUSES("profile nowhere.pt2", 1, "nowhere.pt2");
    REFUSES("profile d.txt --schedule wait", 2, "--schedule: 'wait' is not NAME=N");
    REFUSES("profile d.txt --schedule wait=1,,active=1", 2, "--schedule: '' is not NAME=N");
    REFUSES("profile d.txt --schedule pause=1", 2,
            "there is no 'pause'; there are wait, warmup, active, repeat, skip_first and "
            "skip_first_wait");
    REFUSES("profile d.txt --schedule wait=-1", 2, "--schedule wait: '-1' is not a whole number");
    REFUSES("profile d.txt --schedule active=0", 2, "--schedule active: '0'");
    REFUSES("profile d.txt --schedule skip_first_wait=2", 2, "--schedule skip_first_wait: '2'");
    REFUSES("profile d.txt --schedule active=two", 2, "--schedule active: 'two'");
    REFUSES("profile d.txt --schedule wait=5 --iterations 3", 2,
            "the schedule records none of 3 runs");
    REFUSES("profile d.txt --sort time", 2, "--sort: sort_by: there is no key 'time'; there are: ");
    REFUSES("profile d.txt --sort self_cuda_time_total", 2,
            "'self_cuda_time_total' is about CUDA, and Tenon runs on CPUs only");
    REFUSES("profile d.txt --limit many", 2, "--limit: 'many'");
    REFUSES("profile d.txt --width 3", 2, "--width: '3'");
    REFUSES("profile d.txt --group-by-stack 0", 2, "--group-by-stack: '0'");
    REFUSES("profile d.txt --iterations 0", 2, "--iterations: '0'");
    REFUSES("profile d.txt --random x", 2, "--random: 'x'");
    REFUSES("profile d.txt --granularity node", 2, "--granularity: 'node' is not op or partition");
    REFUSES("profile m.txt", 2, "s0: 2 to 8");
    REFUSES("profile d.txt --input q=x.npy", 2, "no input 'q'");
    REFUSES("profile d.txt --iterations 1 --trace none/t.json", 1, "none/t.json");
    REFUSES("profile d.txt --iterations 1 --tensorboard d.txt", 1, "d.txt");
}
END_TEST

START_TEST(bench_measures) {
    static char text[1 << 16];
    WORKS("bench --help");
    SAYS(out, "tenon bench [MODEL...]");
    SAYS(out, "--baseline");
    WORKS("bench d.txt m.txt --batch 8 --nwarmup 0 --niter 7 --rounds 1 --no-peaks --detail "
          "--json b.json --html b.html");
    SAYS(out, "Median ms");
    SAYS(out, "\nd ");
    SAYS(out, "\nm ");
    SAYS(out, "d, batch 8, fp32: ");
    SAYS(out, "The same by kind of step:");
    read_file("b.json", text, sizeof text);
    SAYS(text, "\"model=d, test=eval, device=cpu, bs=8, extra_args=['--precision', 'fp32'], "
               "metric=latencies\"");
    read_file("b.html", text, sizeof text);
    SAYS(text, "<title>tenon bench</title>");
    WORKS("bench d.txt --niter 3 --rounds 1 --threads 1 --baseline b.json --threshold 1e9");
    SAYS(out, "GEMM peak in fp32: ");
    SAYS(out, "Triad: ");
    SAYS(out, "Geometric mean of 1 ratio: ");
}
END_TEST

START_TEST(bench_refuses) {
    REFUSES("bench", 2, "no model and no suite is given");
    REFUSES("bench d.txt --precision fp8", 2, "--precision: 'fp8' is not fp32 or bf16");
    REFUSES("bench d.txt --limit 3", 2, "--limit: it is about the rows of --detail");
    REFUSES("bench d.txt --tune-file ''", 2, "--tune-file: the path is empty");
    REFUSES("bench d.txt --baseline d.txt", 1, "--baseline: d.txt: this is no JSON");
    REFUSES("bench d.txt --no-peaks --batch 9", 1,
            "d, batch 9, fp32: the model is made for batch size 8, not 9");
    SAYS(out, "failed");
    write_file("suite.json", "{\"models\": [{\"name\": \"d\", \"batch\": 8, \"file\": "
                             "\"d.txt\"}]}");
    WORKS("bench d --suite . --no-peaks --rounds 1 --niter 1 --nwarmup 0");
    REFUSES("bench e --suite .", 2, "./suite.json has no model 'e'; it has d");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli");
    TCase *tests = tcase_create("cli");
    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, set_up, remove_directory); /* gone even when a test fails */
    tcase_add_test(tests, integers_must_be_equal);
    tcase_add_test(tests, usage);
    tcase_add_test(tests, bad_options);
    tcase_add_test(tests, outputs_are_printed_written_and_compared);
    tcase_add_test(tests, random_integers_stay_within_their_tables);
    tcase_add_test(tests, numbers_and_other_dtypes);
    tcase_add_test(tests, limits_are_set);
    tcase_add_test(tests, info_tells_the_model);
    tcase_add_test(tests, explain_tells_the_plan);
    tcase_add_test(tests, partitions_are_verified);
    tcase_add_test(tests, processes_give_the_same_bytes);
    tcase_add_test(tests, choices_are_measured_and_told);
    tcase_add_test(tests, isa_caps_are_told);
    tcase_add_test(tests, files_are_written_whole_or_not_at_all);
    tcase_add_test(tests, what_is_read_is_not_written_over);
    tcase_add_test(tests, full_standard_outputs_are_told);
    tcase_add_test(tests, ops_are_listed);
    tcase_add_test(tests, profile_prints_tables);
    tcase_add_test(tests, profile_refuses);
    tcase_add_test(tests, bench_measures);
    tcase_add_test(tests, bench_refuses);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
