/* The counter for Java, in the readings of tickscope.h: as functions for the foreign-function interface, and by JNI. */
/* The pool is Java's: none is made when this is loaded, and nothing of tickscope.h but its readings is linked. */
#define constructor cold
#define destructor cold
#include "tickscope.h"
#undef constructor
#undef destructor

#include <jni.h>

JNIEXPORT int64_t tickscope_java_plain(void) {
    return tickscope__plain();
}

JNIEXPORT int64_t tickscope_java_before(void) {
    return tickscope__before();
}

JNIEXPORT int64_t tickscope_java_after(void) {
    return tickscope__after();
}

JNIEXPORT jlong Java_tickscope_NativeCounter_plain(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return tickscope__plain();
}

JNIEXPORT jlong Java_tickscope_NativeCounter_before(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return tickscope__before();
}

JNIEXPORT jlong Java_tickscope_NativeCounter_after(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return tickscope__after();
}
