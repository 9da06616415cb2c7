# Makes a C++ source of a text file, so that a program carries the text with it:
#   cmake -DINPUT=page.html -DOUTPUT=page.cpp -DNAME=kPage -P EmbedText.cmake
# defines `extern const char kPage[]` in namespace daso. Compilers limit the length of one string
# literal (the standard asks for 64 KB, MSVC takes 16 KB), so the text is cut into raw literals that
# stand side by side. A cut falls after the end of a line, never inside a character.
cmake_minimum_required(VERSION 3.22)
foreach(variable INPUT OUTPUT NAME)
  if(NOT ${variable})
    message(FATAL_ERROR "EmbedText.cmake needs -D${variable}=...")
  endif()
endforeach()
set(most 12000)     # bytes in a piece
set(mark DASOTEXT)  # ends a raw literal; the text must not hold )DASOTEXT"

file(READ "${INPUT}" text)
string(FIND "${text}" ")${mark}\"" found)
if(NOT found EQUAL -1)
  message(FATAL_ERROR "${INPUT} holds )${mark}\", which would end the literal")
endif()

get_filename_component(input_name "${INPUT}" NAME)
set(source "// Made from ${input_name}; edit that.\n")
string(APPEND source "namespace daso {\nextern const char ${NAME}[];\nconst char ${NAME}[] =")
string(LENGTH "${text}" left)
while(left GREATER 0)
  string(SUBSTRING "${text}" 0 ${most} piece)
  if(left GREATER most)
    string(FIND "${piece}" "\n" line_end REVERSE)
    if(line_end EQUAL -1)
      message(FATAL_ERROR "${INPUT} has a line of more than ${most} characters: break it")
    endif()
    math(EXPR size "${line_end} + 1")
    string(SUBSTRING "${text}" 0 ${size} piece)
  else()
    set(size ${left})
  endif()
  string(APPEND source "\n    R\"${mark}(${piece})${mark}\"")
  string(SUBSTRING "${text}" ${size} -1 text)
  string(LENGTH "${text}" left)
endwhile()
string(APPEND source ";\n}  // namespace daso\n")
file(WRITE "${OUTPUT}" "${source}")
